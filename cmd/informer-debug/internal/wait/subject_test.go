package wait

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// An informer that has stopped is behind, although its queue is empty.
func TestTheLagOfAnInformerThatHasStopped(t *testing.T) {
	condition, err := parseCondition("lag<1s")
	require.NoError(t, err)
	w := &waiter{waitFlags: &waitFlags{condition: condition}}
	for state, want := range map[reflector.State]bool{reflector.Stopped: false, reflector.Watching: true} {
		met, text := w.informerIs(&debug.Informer{Status: sharedinformer.Status{Synced: true, Reflector: reflector.Status{State: state, Since: time.Now()}}})
		require.Equal(t, want, met, text)
	}
}

// The queue of a controller whose sources have not synced is empty because it has not started, not because it is
// done.
func TestTheQueueOfAControllerThatHasNotStarted(t *testing.T) {
	condition, err := parseCondition("queue=0")
	require.NoError(t, err)
	w := &waiter{waitFlags: &waitFlags{condition: condition}}
	for state, want := range map[controller.State]bool{controller.Waiting: false, controller.Running: true} {
		met, _, err := w.queueIs(&subject{types: "keeper"}, &debug.Status{Controllers: []controller.Status{{Name: "keeper", State: state, Since: time.Now()}}})
		require.NoError(t, err)
		require.Equal(t, want, met, state)
	}
}
