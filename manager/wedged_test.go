package manager_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/manager"
)

// wedged is a part whose Unfinished blocks.
type wedged struct{ part }

func (w *wedged) Unfinished() []string { time.Sleep(time.Hour); return nil }

// Any number of runnables whose Unfinished blocks delay the end of Run by at most two seconds.
func TestManyBlockedUnfinishedDelayTheEndOnce(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{GracefulShutdownTimeout: 15 * time.Second})
		for n := range 20 {
			require.NoError(t, m.AddTo(manager.Others, &wedged{part{rig: r, name: fmt.Sprint("w", n), stopping: time.Hour}}))
		}
		running := r.start(m)
		settle(time.Second)
		running.stop()
		settle(18 * time.Second)
		require.True(t, running.ended.Load())
		require.ErrorIs(t, running.err, manager.ErrNotStopped)
		settle(2 * time.Hour)
	})
}
