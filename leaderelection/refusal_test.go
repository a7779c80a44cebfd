package leaderelection_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/leaderelection"
)

// A candidate that may read but not write reports a continuing failure, and so does one whose writes
// conflict without another candidate.
func TestFailureToTakeTheLeaseIsOneContinuingFailure(t *testing.T) {
	for name, code := range map[string]int{"forbidden": http.StatusForbidden, "conflict": http.StatusConflict} {
		for verb, deleted := range map[string]bool{"update": false, "create": true} {
			t.Run(name+" "+verb, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					e, _ := r.elector(options{Identity: "before"})
					require.NoError(r, e.Run(r.ctx, func(context.Context) error { return nil }))
					if deleted {
						require.NoError(r, r.srv.Delete(leases, key))
					}
					r.srv.Faults().Add(apiservertest.Fault{Verb: verb, Resource: "leases", Do: []apiservertest.Action{apiservertest.Fail{Code: code}}})
					var log bytes.Buffer
					a := r.join(options{Identity: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
					settle(10 * time.Minute)
					require.Greater(r, a.Status().Attempts, 200)
					require.Less(r, strings.Count(log.String(), "\n"), 20)
					r.srv.Faults().Clear()
					settle(3 * time.Second)
					require.True(r, a.leads())
					require.Zero(r, a.Status().Attempts)
				})
			})
		}
	}
}

func TestStoppingIsNotAFailure(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		e, n := r.elector(options{Identity: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		n.cut.Store(true)
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		require.NoError(r, e.Run(ctx, func(context.Context) error { return nil }))
		require.Empty(r, log.String())
		require.Nil(r, e.Status().Failure)
	})
}

// page is the answer of a web server that knows nothing of leases.
func page(req *http.Request, code int) *http.Response {
	const text = "<html><head><title>Not here</title></head></html>"
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"text/html"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)),
	}
}

func TestAPageDoesNotSayThatTheLeaseWasDeleted(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		e, n := r.elector(options{Identity: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		base, lost := n.RoundTripper, atomic.Bool{}
		n.RoundTripper = tripper(func(req *http.Request) (*http.Response, error) {
			if lost.Load() {
				return page(req, http.StatusNotFound), nil
			}
			return base.RoundTrip(req)
		})
		err := e.Run(r.ctx, func(ctx context.Context) error {
			lost.Store(true)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(r, err, leaderelection.ErrLost)
		require.ErrorContains(r, err, "404 Not Found from apiserver.pipe with text/html")
		require.NotContains(r, log.String(), "deleted")
		log.Reset()
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		require.NoError(r, e.Run(ctx, func(context.Context) error { return nil }))
		require.NotContains(r, log.String(), "free")
		require.Contains(r, log.String(), "could not be read")
	})
}

// A success that is not the API server's is none.
func TestAnAnswerThatIsNotTheLeaseMakesNoLeader(t *testing.T) {
	for name, text := range map[string]string{
		"success": `{"kind":"Status","apiVersion":"v1","status":"Success"}`,
		"empty":   `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1"}`,
		"another": `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"janitor","namespace":"shop","resourceVersion":"7"},"spec":{"holderIdentity":"b"}}`,
	} {
		for method, holds := range map[string]bool{http.MethodGet: false, http.MethodPost: false, http.MethodPut: true} {
			if name == "another" && method == http.MethodGet {
				continue // a valid response
			}
			t.Run(name+" "+method, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					e, n := r.elector(options{Identity: "a"})
					base := n.RoundTripper
					n.RoundTripper = tripper(func(req *http.Request) (*http.Response, error) {
						if req.Method == method {
							resp := page(req, http.StatusOK)
							resp.Header.Set("Content-Type", "application/json")
							resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
							return resp, nil
						}
						return base.RoundTrip(req)
					})
					ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
					defer cancel()
					led := false
					err := e.Run(ctx, func(ctx context.Context) error {
						led = true
						<-ctx.Done()
						return nil
					})
					require.Equal(r, holds, led)
					require.Equal(r, holds, err != nil, "it cannot be renewed: %v", err)
					require.Error(r, e.Status().Failure)
				})
			})
		}
	}
}
