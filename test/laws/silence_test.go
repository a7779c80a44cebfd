package laws

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// firstBackOff is the maximum of the first wait after a failure.
const firstBackOff = 1200 * time.Millisecond

// A streaming list without an end is abandoned after StreamIdle of silence, or after StreamTimeout if
// changes arrive. A list replaces it.
func TestL20_AStreamWithoutEndFallsBackToAList(t *testing.T) {
	for name, tc := range map[string]struct {
		server   apiservertest.Options
		idle     time.Duration
		timeout  time.Duration
		do       apiservertest.Action
		from, to time.Duration
		cause    error // ErrNoEnd by default
	}{
		"end withheld":               {do: apiservertest.WithholdEnd{}, from: 10 * time.Second, to: 10*time.Second + firstBackOff},
		"option overlooked":          {server: apiservertest.Options{StreamingLists: apiservertest.StreamingListsIgnored}, do: apiservertest.Delay{}, from: 10 * time.Second, to: 10*time.Second + firstBackOff},
		"silent half-way":            {do: apiservertest.Silence{AfterFrames: 2}, from: 10 * time.Second, to: 10*time.Second + firstBackOff},
		"silent from the first byte": {do: apiservertest.Silence{}, from: 10 * time.Second, to: 10*time.Second + firstBackOff, cause: reflector.ErrNoAnswer},
		"bookmarks, but not the end": {idle: 90 * time.Second, timeout: 150 * time.Second, do: apiservertest.WithholdEnd{}, from: 150 * time.Second, to: 150*time.Second + firstBackOff},
		"timeout below idle":         {timeout: 4 * time.Second, do: apiservertest.Silence{}, from: 4 * time.Second, to: 4*time.Second + firstBackOff, cause: reflector.ErrNoAnswer},
	} {
		for _, initial := range []reflector.Initial{reflector.Auto, reflector.WatchList} {
			t.Run(name+" "+initial.String(), func(t *testing.T) {
				inBubble(t, tc.server, func(r *rig) {
					r.fill(3)
					r.fault("watch", tc.do)
					reported := &failures{}
					i := r.informer(sharedinformer.Options{
						Initial: initial, Timing: reflector.Timing{StreamIdle: tc.idle, StreamTimeout: tc.timeout}, OnError: reported.handle,
					})
					began := time.Now()
					defer r.run(i)()
					require.NoError(r, i.WaitForSync(r.ctx))
					r.within(tc.from, tc.to, time.Since(began))
					r.inStep(i)
					require.Equal(r, 1, r.srv.Stats().Answers("list", "pods", 200))
					all := reported.heard()
					require.NotEmpty(r, all)
					require.ErrorIs(r, &all[0], cmp.Or(tc.cause, reflector.ErrNoEnd))
					r.srv.Faults().Clear()
					synctest.Wait()
				})
			})
		}
	}
}

// Changes that arrive instead of the end do not postpone it indefinitely.
func TestL20_ABusyStreamWithoutEndFallsBackToo(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fault("watch", apiservertest.WithholdEnd{})
		i := r.informer(streaming())
		began := time.Now()
		defer r.run(i)()
		for n := 0; !i.HasSynced() && n < 1000; n++ {
			r.put(pod("a", "n="+strconv.Itoa(n)))
			settle(time.Second)
		}
		r.within(5*time.Minute, 5*time.Minute+3*time.Second, time.Since(began))
		r.inStep(i)
	})
}

// A refusal to stream is not a failure: the list follows at once.
func TestL20_ARefusedStreamIsListedAtOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused}, func(r *rig) {
		r.fill(3)
		i := r.informer(streaming())
		began := time.Now()
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Zero(r, time.Since(began))
		require.Zero(r, i.Status().Reflector.Failures)
		r.inStep(i)
	})
}

func TestL20_SilentListIsAbortedAndRetried(t *testing.T) {
	for name, after := range map[string]int{"from the first byte": 0, "half-way": 2} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(3)
				r.once("list", apiservertest.Silence{AfterFrames: after})
				reported := &failures{}
				opts := listing()
				opts.OnError = reported.handle
				i := r.informer(opts)
				began := time.Now()
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				r.within(time.Minute, time.Minute+firstBackOff, time.Since(began))
				all := reported.heard()
				require.Len(r, all, 1)
				require.Equal(r, failure.PhaseList, all[0].Phase)
				require.ErrorIs(r, &all[0], reflector.ErrStalled)
				r.inStep(i)
			})
		})
	}
}

// The discovery of a kind counts as part of the first request.
func TestL20_SilentDiscoveryIsAborted(t *testing.T) {
	whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
		r.fill(3)
		r.once("", apiservertest.Fail{Code: 404}) // the built-in location is no longer trusted
		r.srv.Faults().Add(apiservertest.Fault{Verb: "get", Count: 1, Do: []apiservertest.Action{apiservertest.Silence{}}})
		i := r.informer(opts)
		began := time.Now()
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		r.within(10*time.Second, 2*time.Minute, time.Since(began))
		r.inStep(i)
	})
}

// The server must end a watch after the watch's timeout. If it does not, the watch counts as dead after
// a margin, for whatever reason, and the next watch brings the missed changes. A watch without an answer
// is abandoned earlier.
func TestL20_ASilentWatchIsDeadAfterItsTimeoutAndAMargin(t *testing.T) {
	for name, after := range map[string]int{"not answered": 0, "after one event": 1} {
		t.Run(name, func(t *testing.T) {
			whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
				r.fill(1)
				i := r.spied(opts)
				r.once("watch", apiservertest.Silence{AfterFrames: after})
				r.srv.Restart()
				settle(2 * time.Second)
				r.put(pod("first"))
				r.put(pod("second"))
				settle(11 * time.Minute)
				log := i.source.heard()
				require.GreaterOrEqual(r, len(log), 2)
				require.Equal(r, []string{"watch"}, distinct(verbs(log)))
				lifetime, cause := time.Duration(*log[0].opts.TimeoutSeconds)*time.Second+30*time.Second, reflector.ErrStalled
				if after == 0 {
					lifetime, cause = time.Minute, reflector.ErrNoAnswer
				}
				r.within(lifetime, lifetime+2*firstBackOff, log[1].at.Sub(log[0].at))
				require.Equal(r, []string{"add first", "add second"}, i.handler.heard())
				all := i.reported.heard()
				require.ErrorIs(r, &all[len(all)-1], cause)
				r.inStep(i.Informer)
			})
		})
	}
}

// halfOpen creates connections that can stop carrying data without being closed.
type halfOpen struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	conns []*deafConn
}

func (h *halfOpen) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := h.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	deaf := &deafConn{Conn: conn, closed: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, deaf)
	return deaf, nil
}

// lose silences every open connection.
func (h *halfOpen) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.mu.Lock()
		c.deaf = true
		c.mu.Unlock()
	}
}

type deafConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	deaf   bool
}

func (c *deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	deaf := c.deaf
	c.mu.Unlock()
	if !deaf {
		return n, err
	}
	<-c.closed
	return 0, net.ErrClosed
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func TestL20_AHalfOpenConnectionIsReplaced(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		endpoint, err := r.srv.Pipe()
		require.NoError(r, err)
		connections := &halfOpen{dial: endpoint.DialContext}
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: connections.Dial}, sharedScheme())
		require.NoError(r, err)
		defer client.CloseIdleConnections()
		i := newInformer[*corev1.Pod](rest.ResourceFor[*corev1.Pod](client).Source(), streaming())
		h := record(r, i)
		i.AddHandler(h)
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		connections.lose()
		r.put(pod("a"))
		settle(4 * time.Minute)
		require.Empty(r, h.heard(), "lost without a sound")
		settle(7 * time.Minute)
		require.Equal(r, []string{"add a"}, h.heard())
		require.EqualValues(r, 1, i.Status().Reflector.Lists)
		r.inStep(i)
	})
}

// A server that was late once is assumed to be late at every relist.
func TestL20_AStreamThatWasLateIsNotTriedAgain(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(3)
		r.fault("watch", apiservertest.WithholdEnd{})
		i := r.spied(streaming())
		r.srv.Down()
		r.delete("pa")
		r.srv.Compact()
		r.srv.Up()
		settle(30 * time.Second)
		log := i.source.heard()
		require.Equal(r, []string{"list", "watch"}, verbs(log)[len(log)-2:])
		require.NotContains(r, verbs(log), "stream")
		r.inStep(i.Informer)
	})
}
