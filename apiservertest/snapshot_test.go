package apiservertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
)

func TestRestoreGoesBack(t *testing.T) {
	withFront(t, apiservertest.Options{}, apiservertest.FrontOptions{Lag: time.Second}, func(t *testing.T, r, f *rig) {
		r.create(pod("default", "a"), pod("default", "b"), widget("w", 1))
		old, err := r.Get(pods, keyOf("default", "a"))
		require.NoError(t, err)
		backup := r.Snapshot()
		require.Equal(t, "103", backup.RV())

		require.NoError(t, r.Delete(pods, keyOf("default", "a")))
		r.create(pod("default", "c", "from", "before"))
		require.NoError(t, r.RemoveResource(widgets))
		lost, err := r.Get(pods, keyOf("default", "c"))
		require.NoError(t, err)
		rv := r.RV()
		time.Sleep(2 * time.Second)
		w, wf := r.watch(podList+"?watch=1&resourceVersion="+rv), f.watch(podList+"?watch=1&resourceVersion="+rv)
		synctest.Wait()

		r.Restore(backup)
		for _, open := range []*stream{w, wf} {
			events, err := open.rest()
			require.Empty(t, events)
			require.Error(t, err, "it is cut")
		}
		for _, s := range []*rig{r, f} {
			l := s.list(podList + "?resourceVersion=0")
			require.Equal(t, []string{"a", "b"}, l.names())
			require.Equal(t, "103", l.Metadata.ResourceVersion)
			events, err := s.watch(podList + "?watch=1&timeoutSeconds=1&resourceVersion=102").rest()
			require.NoError(t, err)
			require.Equal(t, []string{"ERROR 410 Expired: too old resource version: 102 (103)"}, events)
			require.EqualValues(t, 504, s.status("GET", podList+"?resourceVersion="+rv, "").Code)
		}
		require.Len(t, r.Objects(widgets), 1, "resources come back")
		again, err := r.Get(pods, keyOf("default", "a"))
		require.NoError(t, err)
		require.Equal(t, old.GetUID(), again.GetUID())

		next, err := r.Create(pod("default", "c", "from", "after"))
		require.NoError(t, err)
		require.Equal(t, "104", next.GetResourceVersion(), "used before, for another change")
		require.NotEqual(t, lost.GetUID(), next.GetUID())
		require.Equal(t, "ADDED c@104", r.watch(podList+"?watch=1&resourceVersion=103").next())
		r.Restore(backup)
		require.Len(t, r.Objects(pods), 2, "as often as one likes")
	})
}
