package manager_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/test/apiserver"
)

// port is a part that listens, and that closes its port itself when it has run.
type port struct {
	part
	open, closed int
}

func (p *port) Listen() error { p.open++; return nil }
func (p *port) Close() error  { p.closed++; return nil }

// What has never run, because another process leads or a cache is not synced, leaves no port open.
func TestNoPortIsLeftOfAManager(t *testing.T) {
	inBubble(t, server{Authorize: apiserver.Deny("", "pods")}, func(r *rig) {
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
