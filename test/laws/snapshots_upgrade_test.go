package laws

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A server that reads its objects with other defaults, or converts them otherwise, has other contents at the same
// versions. A snapshot from before would keep the old contents forever, because nothing has changed since (C02, L17).
func TestC02_ASnapshotFromBeforeAnUpgradeIsNotBelieved(t *testing.T) {
	for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
		t.Run(store.String(), func(t *testing.T) {
			dir := t.TempDir()
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.put(pod("a"))
				r.put(pod("b", "x=y"))
				opts := sharedinformer.Options{Store: store}
				first := r.begin(dir, opts)
				r.untilSynced(first)
				first.stop()
				require.Len(t, files(t, dir), 1)
				require.NoError(t, r.srv.Upgrade(pods, func(o object.Object) { o.(*corev1.Pod).Spec.SchedulerName = "newer" }))
				for _, resumed := range []bool{false, true} {
					next := r.begin(dir, opts)
					r.untilSynced(next)
					for p := range next.Cache().All() {
						require.Equal(t, "newer", p.Spec.SchedulerName, "%s, as the server reads it", p.Name)
					}
					require.Equal(t, resumed, next.Status().Reflector.Resumed)
					next.stop()
				}
			})
		})
	}
}
