package workqueue

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Some sections are left at once and found free again after a pause; in others
// the holder is made to wait itself, and the rest go to sleep.
func TestALockHasOneHolder(t *testing.T) {
	const workers, rounds = 8, 500
	var l lock
	held, total := 0, 0
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range rounds {
				l.Lock()
				held++
				if i%20 == 0 {
					for range 100 {
						runtime.Gosched()
					}
				}
				if held != 1 {
					t.Errorf("%d hold the lock", held)
				}
				held--
				total++
				l.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, workers*rounds, total)
}
