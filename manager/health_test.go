package manager_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/manager"
)

// Regardless of what a check does, the probe responds in time and names it.
func TestProbeIsAnsweredEvenIfACheckHangs(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		answer := make(chan struct{})
		var calls atomic.Int32
		for name, check := range map[string]manager.Check{
			"exits":  func(*http.Request) error { runtime.Goexit(); return nil },
			"panics": func(*http.Request) error { panic("oh") },
			"fails":  func(*http.Request) error { return errors.New("disk full") },
			"waits":  func(req *http.Request) error { <-req.Context().Done(); return req.Context().Err() },
			"hangs":  func(*http.Request) error { calls.Add(1); <-answer; return nil },
		} {
			require.NoError(r, m.AddHealthzCheck(name, check))
		}
		require.ErrorContains(r, m.AddHealthzCheck("nil", nil), `check "nil" for /healthz is nil`)
		began := time.Now()
		code, body := probe(m, "/healthz")
		require.Equal(r, http.StatusInternalServerError, code)
		require.LessOrEqual(r, time.Since(began), 6*time.Second)
		for _, want := range []string{
			"[-] exits: check called runtime.Goexit", "[-] panics: check panicked: oh", "[-] fails: disk full",
			"[-] waits: context deadline exceeded", "[-] hangs: the check has not returned for 5s", "[+] ping: ok",
		} {
			require.Contains(r, body, want)
		}
		_, body = probe(m, "/healthz/hangs")
		require.Contains(r, body, "[-] hangs: the check has not returned for 5s")
		require.EqualValues(r, 1, calls.Load())
		close(answer)
		synctest.Wait()
		code, _ = probe(m, "/healthz/hangs")
		require.Equal(r, http.StatusOK, code)
	})
}

// A client that disconnects affects neither the responses to others nor the log.
func TestCallerThatDisconnectsFailsNoProbe(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		var log bytes.Buffer
		m := r.manager(options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var calls, most atomic.Int32
		for name, check := range map[string]manager.Check{
			"heedless": func(*http.Request) error {
				most.Store(max(most.Load(), calls.Add(1)))
				defer calls.Add(-1)
				time.Sleep(time.Second)
				return nil
			},
			"heeding": func(req *http.Request) error {
				select {
				case <-time.After(time.Second):
					return nil
				case <-req.Context().Done():
					return req.Context().Err()
				}
			},
		} {
			require.NoError(r, m.AddHealthzCheck(name, check))
		}
		for range 10 {
			ctx, hangUp := context.WithCancel(r.ctx)
			asked := httptest.NewRequest(http.MethodGet, "/healthz", nil).WithContext(ctx)
			go m.Probes().ServeHTTP(httptest.NewRecorder(), asked)
			synctest.Wait()
			hangUp()
			settle(200 * time.Millisecond)
			code, body := probe(m, "/healthz")
			require.Equal(r, http.StatusOK, code, body)
		}
		require.EqualValues(r, 1, most.Load(), "calls at a time")
		require.Empty(r, log.String())
	})
}

func TestRunnableThatCallsGoexitIsAFailure(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		require.NoError(r, m.Add(&exiting{}))
		run := r.start(m)
		settle(time.Minute)
		require.True(r, run.ended.Load())
		require.ErrorContains(r, run.err, "exiting: Run called runtime.Goexit")
		require.Panics(r, func() { _ = m.Add(nil) })
	})
}

type exiting struct{}

func (*exiting) Name() string              { return "exiting" }
func (*exiting) Run(context.Context) error { runtime.Goexit(); return nil }
