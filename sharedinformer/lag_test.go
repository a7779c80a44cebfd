package sharedinformer

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// A handler with the policy Coalesce that hangs in a call must not keep alive
// the states that it will never be told of.
func TestL09_CoalesceLetsGoOfStatesInBetween(t *testing.T) {
	i := New[partial](quiet{}, Options{Initial: reflector.List})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	require.NoError(t, i.WaitForSync(ctx))

	called, release := make(chan struct{}), make(chan struct{})
	first := true
	i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error {
		if first {
			first = false
			close(called)
			<-release
		}
		return nil
	}), HandlerOptions{Lag: Coalesce})

	const changes = 20
	var states []weak.Pointer[metav1.PartialObjectMetadata]
	for n := range changes {
		o := thing("a", 1, n+2)
		states = append(states, weak.Make(o))
		i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Updated, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion})
		require.NoError(t, i.WaitForRV(ctx, strconv.Itoa(n+2)))
		if n == 0 {
			<-called
		}
	}
	runtime.GC()
	runtime.GC()
	held := 0
	for _, s := range states {
		if s.Value() != nil {
			held++
		}
	}
	// What the handler has in hand, the old and new state of its one pending
	// entry, and what the cache and the end of the log hold.
	require.LessOrEqual(t, held, 5, "of %d states", changes)
	close(release)
	cancel()
	require.NoError(t, <-ended)
}
