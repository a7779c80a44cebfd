package clientgo_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// While an index function blocks, a new handler waits. The status, which identifies the index, does not.
func TestL22_AHandlerThatWaitsForAnIndexFunctionDoesNotBlockTheStatus(t *testing.T) {
	onAdapted(t, func(r *rig) {
		pods := r.pods(0)
		var blocks atomic.Bool
		release := make(chan struct{})
		require.NoError(r, pods.AddIndexers(cache.Indexers{"slow": func(any) ([]string, error) {
			if blocks.Load() {
				<-release
			}
			return nil, nil
		}}))
		r.run(pods)
		blocks.Store(true)
		r.put(pod("a"))
		time.Sleep(10 * time.Second)

		// A bubble's clock does not advance while a goroutine waits for a mutex.
		joined, told := make(chan error, 1), make(chan string, 1)
		r.runs.Go(func() {
			_, err := pods.AddEventHandler(&diary{})
			joined <- err
		})
		for range 100_000 {
			runtime.Gosched()
		}
		r.runs.Go(func() {
			s, _ := clientgo.Status(pods)
			told <- s.Blocked
		})
		for n := 0; len(told) == 0 && n < 1_000_000; n++ {
			runtime.Gosched()
		}
		require.Empty(r, joined)
		early := len(told) > 0
		close(release)
		synctest.Wait()
		require.NoError(r, <-joined)
		require.True(r, early)
		require.Contains(r, <-told, `index "slow"`)
	})
}
