package leaderelection_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/redial"
	"github.com/millrace-dev/millrace/leaderelection"
)

// tripper is a RoundTripper of the user's.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// working runs e for d, and returns how long the work ran before its context was done; 0 if it was
// not.
func (r *rig) working(e *leaderelection.Elector, begin func(), d time.Duration) (told *atomic.Int64) {
	told = &atomic.Int64{}
	r.runs.Go(func() {
		_ = e.Run(r.ctx, func(ctx context.Context) error {
			began := time.Now()
			begin()
			select {
			case <-ctx.Done():
				told.Store(int64(time.Since(began)))
			case <-time.After(d):
			}
			return nil
		})
	})
	settle(d + time.Second)
	return told
}

func TestTransportIgnoringItsContextDoesNotDelayTheDeadline(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, n := r.elector(options{Identity: "a"})
		base, deaf, over := n.RoundTripper, atomic.Bool{}, make(chan struct{})
		defer close(over)
		n.RoundTripper = tripper(func(req *http.Request) (*http.Response, error) {
			if deaf.Load() {
				<-over // regardless of the context
			}
			return base.RoundTrip(req)
		})
		told := r.working(e, func() { deaf.Store(true) }, time.Hour)
		require.EqualValues(r, 10*time.Second, told.Load())
		require.ErrorContains(r, e.Status().Failure, "ignores that the request's context is done")
	})
}

// One request may hang where others do not.
func TestRequestIgnoringItsContextDoesNotLoseTheLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, n := r.elector(options{Identity: "a"})
		base, over := n.RoundTripper, make(chan struct{})
		defer close(over)
		var requests atomic.Int32
		n.RoundTripper = tripper(func(req *http.Request) (*http.Response, error) {
			if requests.Add(1) == 4 {
				<-over
			}
			return base.RoundTrip(req)
		})
		told := r.working(e, func() {}, 10*time.Minute)
		require.Zero(r, told.Load())
		require.Greater(r, requests.Load(), int32(200))
	})
}

// blockedLog blocks when a failure is logged.
type blockedLog struct{ over chan struct{} }

func (b blockedLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (b blockedLog) WithAttrs([]slog.Attr) slog.Handler           { return b }
func (b blockedLog) WithGroup(string) slog.Handler                { return b }
func (b blockedLog) Handle(context.Context, slog.Record) error    { <-b.over; return nil }

func TestBlockedLogDoesNotDelayTheDeadline(t *testing.T) {
	inBubble(t, func(r *rig) {
		log := blockedLog{make(chan struct{})}
		defer close(log.over)
		e, n := r.elector(options{Identity: "a", Logger: slog.New(log)})
		told := r.working(e, func() { n.refuse.Store(true) }, time.Hour)
		require.EqualValues(r, 10*time.Second, told.Load())
	})
}

// A process may be suspended between a request and its answer.
func TestLeaseIsNotUsedIfTheAnswerCameTooLate(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, n := r.elector(options{Identity: "a"})
		base := n.RoundTripper
		n.RoundTripper = tripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodPost {
				return base.RoundTrip(req)
			}
			resp, err := base.RoundTrip(req)
			require.NoError(r, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(r, err)
			resp.Body = io.NopCloser(bytes.NewReader(body))
			time.Sleep(20 * time.Second)
			return resp, nil
		})
		ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
		defer cancel()
		require.NoError(r, e.Run(ctx, func(context.Context) error {
			r.Error("it leads with a lease that ran out")
			return nil
		}))
		require.ErrorContains(r, e.Status().Failure, "the response arrived after 20s")
	})
}

// If the connection is dead, a second attempt on a new one renews the lease in time.
func TestRenewalOverADeadConnection(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := &candidate{rig: r}
		a.Elector, a.network = r.elector(options{Identity: "a"})
		base, dead := a.network.RoundTripper, time.Now().Add(10*time.Second)
		a.network.RoundTripper = tripper(func(req *http.Request) (*http.Response, error) {
			if time.Now().After(dead) && !redial.Marked(req.Context()) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return base.RoundTrip(req)
		})
		a.start(r.ctx)
		settle(2 * time.Minute)
		require.True(r, a.leads())
		require.Len(r, a.tokens(), 1)
	})
}
