package laws

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// shown is an informer in the form in which a process shows it.
type shown struct {
	*sharedinformer.Informer[*corev1.Pod]
}

func (s shown) Status() []sharedinformer.Status { return []sharedinformer.Status{s.Informer.Status()} }
func (s shown) Views() []sharedinformer.View    { return []sharedinformer.View{s.View()} }

// viewers connect to the server of a process in memory.
type viewers struct {
	conns chan net.Conn
	open  []net.Conn
}

func (v *viewers) Accept() (net.Conn, error) {
	if c, ok := <-v.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (v *viewers) Close() error   { close(v.conns); return nil }
func (v *viewers) Addr() net.Addr { return &net.UnixAddr{Name: "viewers"} }

// ask sends a request whose response is never read.
func (v *viewers) ask(r *rig, path string) {
	client, server := net.Pipe()
	v.conns <- server
	v.open = append(v.open, client)
	_, err := fmt.Fprintf(client, "GET %sv1/%s HTTP/1.1\r\nHost: process\r\nConnection: close\r\n\r\n", debug.Path, path)
	require.NoError(r, err)
}

// workload runs an informer through changes while look observes it, and returns the events of its handler
// with their times.
func workload(r *rig, look func(*debug.Process), later func()) []string {
	recorder := flight.New(flight.DefaultSize)
	var mu sync.Mutex
	var heard []string
	began := time.Now()
	i := r.informer(sharedinformer.Options{Flight: recorder})
	i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(_ context.Context, e sharedinformer.Event[*corev1.Pod]) error {
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, fmt.Sprintf("%s %s %s %s", time.Since(began), e.Type, e.Object.GetName(), e.Object.GetResourceVersion()))
		return nil
	}))
	stop := r.run(i)
	require.NoError(r, i.WaitForSync(r.ctx))
	look(debug.New(debug.Options{Informers: debug.Of(shown{i}), Recorder: recorder, Contents: true}))
	for n := range 300 {
		r.put(pod(fmt.Sprintf("p%d", n%40), fmt.Sprintf("n=%d", n)))
		time.Sleep(100 * time.Millisecond)
		if n == 200 {
			later()
		}
	}
	time.Sleep(time.Minute)
	s := i.Status()
	heard = append(heard, fmt.Sprintf("%d events, %d watches, %d lists, %d failures", s.Reflector.Events, s.Reflector.Watches, s.Reflector.Lists, s.Reflector.Failures))
	stop()
	return heard
}

// Viewers, however many and however slow, do not change the events of handlers or the times of the
// events.
func TestD01_ObservingDelaysNothing(t *testing.T) {
	var alone, watched []string
	inBubble(t, apiservertest.Options{}, func(r *rig) { alone = workload(r, func(*debug.Process) {}, func() {}) })
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		v := &viewers{conns: make(chan net.Conn)}
		server := &http.Server{}
		ended := make(chan error, 1)
		var readers sync.WaitGroup
		before := 0
		watched = workload(r, func(p *debug.Process) {
			server.Handler = p
			go func() { ended <- server.Serve(v) }()
			synctest.Wait()
			before = runtime.NumGoroutine()
			for range 20 { // more viewers than allowed; none of them reads
				v.ask(r, "events")
			}
			for range 40 {
				v.ask(r, "objects?limit=1000")
				v.ask(r, "status")
			}
			client := p.Client()
			for range 10 {
				readers.Go(func() {
					for range 100 {
						// This may exceed the limit of viewers, so a refusal is correct.
						_, _ = client.Status(r.ctx)
						_, _ = client.Objects(r.ctx, debug.Which{}, debug.Page{})
						time.Sleep(37 * time.Millisecond)
					}
				})
			}
		}, func() {
			refused := 0
			for n := range 20 {
				text, _ := io.ReadAll(v.open[n]) // the part sent before the connection was closed
				if strings.HasPrefix(string(text), "HTTP/1.1 503") {
					refused++
				}
			}
			require.Equal(r, 12, refused, "streams beyond the eighth are refused")
		})
		readers.Wait()
		for _, c := range v.open {
			c.Close()
		}
		synctest.Wait()
		// Each viewer used one or two goroutines. None of them remains.
		require.LessOrEqual(r, runtime.NumGoroutine(), before)
		require.NoError(r, server.Close())
		require.ErrorIs(r, <-ended, http.ErrServerClosed)
	})
	require.Equal(t, alone, watched)
}

// Events that a slow viewer misses are counted.
func TestD01_MissedEventsAreCounted(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		recorder := flight.New(64 << 10)
		i := r.informer(sharedinformer.Options{Flight: recorder})
		stop := r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		const changes = 5000
		go func() {
			time.Sleep(time.Second)
			for n := range changes {
				r.put(pod(fmt.Sprintf("p%d", n%40), fmt.Sprintf("n=%d", n)))
			}
		}()
		seen, lost, last := 0, uint64(0), uint64(0)
		client := debug.New(debug.Options{Recorder: recorder}).Client()
		ctx, cancel := context.WithTimeout(r.ctx, 5*time.Minute)
		defer cancel()
		for e, err := range client.Events(ctx, "pods", object.Key{}) {
			require.NoError(r, err)
			if lost += e.Lost; e.Lost == 0 && e.Kind == flight.Applied {
				require.Greater(r, e.Position, last, "in order")
				last = e.Position
				if seen++; seen == 1 {
					time.Sleep(time.Minute) // all changes happen during this time
				}
			}
		}
		require.NotZero(r, lost)
		require.Less(r, seen, changes)
		require.GreaterOrEqual(r, uint64(seen)+lost, uint64(changes))
		require.LessOrEqual(r, recorder.Status().Bytes, 64<<10)
		stop()
	})
}
