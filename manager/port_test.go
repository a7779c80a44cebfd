package manager_test

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
)

// port is a runnable that listens, and closes its port itself when it has run.
type port struct {
	part
	open, closed int
}

func (p *port) Listen() error { p.open++; return nil }
func (p *port) Close() error  { p.closed++; return nil }

// Runnables that have never run, because another process leads or a cache is not synced, do not leave a
// port open.
func TestNoPortIsLeftOfAManager(t *testing.T) {
	inBubble(t, server{Authorize: apiservertest.Deny("", "pods")}, func(r *rig) {
		leader := r.contender("a", 0)
		settle(time.Second)
		m := r.manager(options{LeaderElection: janitor(), WarmupTimeout: time.Second})
		factory.Informer[*corev1.Pod](m.Factory())
		led, held, late, runs := &port{part: part{rig: r, name: "led"}}, &port{part: part{rig: r, name: "held"}}, &port{part: part{rig: r, name: "late"}}, &port{part: part{rig: r, name: "runs"}}
		require.NoError(r, m.Add(led))
		require.NoError(r, m.AddTo(manager.Others, held))
		require.NoError(r, m.AddTo(manager.Servers, runs))
		standby := r.start(m)
		settle(time.Minute)
		require.NoError(r, m.Add(late))
		require.NoError(r, standby.end())
		require.NoError(r, leader.end())
		for _, p := range []*port{led, held, late} {
			require.Equal(r, []int{1, 1}, []int{p.open, p.closed}, p.name)
		}
		require.Equal(r, []int{1, 0}, []int{runs.open, runs.closed}, "Run closes it")
		require.NotContains(r, r.noted(), "+led")
	})
}

// twin is a server whose certificate would have the same name as another server's.
type twin struct{ open, closed int }

func (w *twin) Listen() error                           { w.open++; return nil }
func (w *twin) Close() error                            { w.closed++; return nil }
func (w *twin) Run(ctx context.Context) error           { <-ctx.Done(); return nil }
func (w *twin) Certificate() (*x509.Certificate, error) { return nil, nil }

// A runnable that could not be added does not leave a port open.
func TestNoPortIsOpenAfterAddFails(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		first, early, late := new(twin), new(twin), new(twin)
		require.NoError(r, m.Add(first))
		require.ErrorContains(r, m.Add(early), "add *manager_test.twin")
		run := r.start(m)
		settle(time.Second)
		require.ErrorContains(r, m.Add(late), "add *manager_test.twin")
		require.Equal(r, []int{1, 0, 1}, []int{first.open, early.open, late.open})
		require.Equal(r, 1, late.closed)
		require.NoError(r, run.end())
	})
}
