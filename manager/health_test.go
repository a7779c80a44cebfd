package manager_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/manager"
)

// Whatever a check does, the probe is answered in time and names it.
func TestAProbeIsAnsweredWhateverACheckDoes(t *testing.T) {
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
			"[-] waits: context deadline exceeded", "[-] hangs: the check does not answer", "[+] ping: ok",
		} {
			require.Contains(r, body, want)
		}
		_, body = probe(m, "/healthz/hangs")
		require.Contains(r, body, "[-] hangs: the check has not answered for 5s")
		require.EqualValues(r, 1, calls.Load())
		close(answer)
		synctest.Wait()
		code, _ = probe(m, "/healthz/hangs")
		require.Equal(r, http.StatusOK, code)
	})
}

func TestARunnableThatEndsItsGoroutineIsAFailure(t *testing.T) {
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
