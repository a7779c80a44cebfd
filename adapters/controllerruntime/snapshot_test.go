package controllerruntime_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
)

// A recreated cache starts with its earlier contents, in every form and scope, without a streaming
// list.
func TestC02_ACacheBeginsWithSnapshots(t *testing.T) {
	for name, store := range map[string]sharedinformer.Store{"whole": sharedinformer.Whole, "packed": sharedinformer.Packed} {
		in := snapshot.In(t.TempDir(), snapshot.Options{})
		opts := controllerruntime.Options{Store: store, Snapshot: in}
		on(t, side{name, opts.NewCache}, func(r *rig) {
			r.put(pod("shop", "a", "web"))
			r.put(pod("bank", "b", "web"))
			for round, changed := range []func(){func() {}, func() { r.put(pod("shop", "c", "web")) }, func() { r.put(pod("bank", "d", "db")) }} {
				changed()
				before := r.srv.Stats().Events("pods", "ADDED")
				ctx, cancel := context.WithCancel(r.ctx)
				c, err := r.side.newCache(r.cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, metav1.NamespaceAll: {}}})
				require.NoError(t, err)
				ended := make(chan error, 1)
				go func() { ended <- c.Start(ctx) }()
				for _, out := range podForms() {
					require.NoError(t, c.Get(ctx, key("shop", "a"), out))
					require.NoError(t, c.Get(ctx, key("bank", "b"), out))
				}
				all := new(unstructured.UnstructuredList)
				all.SetAPIVersion("v1")
				all.SetKind("PodList")
				require.NoError(t, c.List(ctx, all, client.MatchingLabels{"app": "web"}))
				require.Len(t, all.Items, min(2+round, 3))
				synctest.Wait()
				sent := r.srv.Stats().Events("pods", "ADDED") - before
				require.Equal(t, []int{6, 3, 3}[round], sent, "of three forms")
				cancel()
				require.NoError(t, <-ended)
			}
		})
	}
}
