package conformance

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// idle is a stack that does nothing and claims to be synced.
type idle struct{}

func (idle) NewInformer(Options) (Informer, error) { return idle{}, nil }

func (idle) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (idle) HasSynced() bool { return true }

func (idle) Get(types.NamespacedName) (*corev1.Pod, bool) { return nil, false }

func (idle) List() []*corev1.Pod { return nil }

func (idle) AddHandler(Handler) (Registration, error) { return idle{}, nil }

func (idle) Remove() error { return nil }

// nowhere is a connection without a peer.
type nowhere struct{ net.Conn }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// If a server was taken down because of a flood, later failures name the flood as their cause.
func TestFloodOfEventsIsNamed(t *testing.T) {
	floods := Case{play: func(p *play) {
		for range flood {
			_, _ = counted{nowhere{}, p}.Write(nil)
		}
		p.breaks("no answer")
	}}
	var r Result
	inBubble(t, floods, func(Server) Stack { return idle{} }, &r, func() {})
	require.Equal(t, []string{"no answer", "there was a flood of requests: the server was taken down after 5000 writes"}, r.Breaks)
}

// A stack that does nothing passes only the cases that forbid something.
func TestAStackThatDoesNothingIsFound(t *testing.T) {
	var kept []string
	for _, c := range Cases() {
		r := Result{Verdict: Kept}
		inBubble(t, c, func(Server) Stack { return idle{} }, &r, func() {})
		if r.Verdict == Kept {
			kept = append(kept, c.String())
		}
	}
	require.Equal(t, []string{
		"L07/removing a handler twice, and after the end, is safe",
		"L18/an empty list syncs",
		"L23/a stop ends the wait for a server that is down",
		"L23/a stop ends a watch",
		"L23/no call after the end",
	}, kept)
}
