package check

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/object"
)

func TestCheckWaitsForABookmarkOrTimesOut(t *testing.T) {
	for _, stuck := range []time.Duration{30 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			srv, cfg := debugtest.Bubbled(t)
			var stdout, stderr debugtest.Transcript
			s := debugtest.Onto(&stdout, &stderr)
			var look sight.Flags
			look.AllNamespaces = true
			require.NoError(t, look.Check())
			v, err := look.OpenCluster(t.Context(), cfg, "pods", nil)
			require.NoError(t, err)
			defer v.Close()
			require.NoError(t, v.Wait(t.Context()))
			srv.SetStuck(true)
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodPending)
			time.AfterFunc(stuck, func() { srv.SetStuck(false) })

			flags := checkFlags{timeout: 2 * time.Minute}
			ctx, cancel := exit.Limited(t.Context(), flags.timeout)
			defer cancel()
			began := time.Now()
			err = exit.Unfinished(ctx, flags.timeout, flags.run(ctx, s, v, "pods"))
			require.Regexp(t, `^· \S+  waiting       pods: 1 of 2 objects differ, which may be temporary: the cache is complete up to version \d+, but the server's list has version \d+: no bookmark has been received yet; .*\n$`, stderr.String())
			if stuck < flags.timeout {
				require.NoError(t, err)
				require.Contains(t, stdout.String(), "pods: 2 objects equal at version ")
				return
			}
			require.ErrorContains(t, err, "--timeout of 2m0s expired")
			require.Equal(t, exit.CodeTimeout, err.(*exit.Error).Code)
			require.Equal(t, flags.timeout, time.Since(began))
			require.Contains(t, stdout.String(), "pods: 1 of 2 objects differ at version ")
			require.Contains(t, stdout.String(), "which may be temporary: the cache is complete up to version ")
			require.Contains(t, stdout.String(), "missing  shop/web-2")
		})
	}
}
