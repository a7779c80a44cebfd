package patience

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACallThatBlocksIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Call
		require.True(t, c.Within(time.Second, func() { time.Sleep(time.Second / 2) }))
		blocked, began := make(chan struct{}), time.Now()
		require.False(t, c.Within(time.Second, func() { <-blocked }))
		require.Equal(t, time.Second, time.Since(began))
		before := runtime.NumGoroutine()
		for range 50 {
			require.False(t, c.Within(time.Second, func() { t.Error("it is called while the first call blocks") }))
		}
		require.Equal(t, before, runtime.NumGoroutine())
		require.Equal(t, time.Second, time.Since(began), "it waits only once")
		close(blocked)
		synctest.Wait()
		require.True(t, c.Within(time.Second, func() {}))
		require.True(t, c.Within(time.Second, runtime.Goexit), "it has ended")
	})
}
