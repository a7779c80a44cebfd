package manager_test

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
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

// busy is an unnamed runnable whose port is in use at first.
type busy struct{ tries int }

func (b *busy) Listen() error {
	if b.tries++; b.tries == 1 {
		return errBoom
	}
	return nil
}

func (b *busy) Close() error { return nil }

func (b *busy) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func TestARunnableMayBeAddedAgainIfItsPortWasInUse(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		run := r.start(m)
		settle(time.Second)
		b := new(busy)
		require.ErrorIs(r, m.Add(b), errBoom)
		require.NoError(r, m.Add(b))
		require.ErrorContains(r, m.Add(b), "it has already been added")
		require.NoError(r, run.end())
	})
}

// If the port of a running manager's webhook server is in use, nothing is left of the server, and the next attempt
// may succeed.
func TestAWebhookServerMayBeAddedAgainIfItsPortWasInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	r := &rig{T: t, srv: srv}
	r.ctx, r.cfg = t.Context(), &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Namespace: "shop"}
	m := r.manager(options{Webhooks: webhook.Options{Address: taken.Addr().String(), TLS: &serving.TLS{}}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	require.Eventually(t, func() bool { return ready(m) }, 10*time.Second, 10*time.Millisecond)
	_, err = m.WebhookServer()
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, taken.Close())
	_, err = m.WebhookServer()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		code, body := probe(m, "/readyz/webhooks")
		return code == http.StatusOK && ready(m) && !strings.Contains(body, "webhooks-2")
	}, 10*time.Second, 10*time.Millisecond)
}
