package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
)

// answering is a network in which a process answers as the test wants.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// after answers after d, unless the request is cancelled.
func after(d time.Duration, form string, body func(*http.Request) io.Reader) answering {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {form}, "Millrace-Debug": {"v1"}}, Body: io.NopCloser(body(r)), Request: r}, nil
	}
}

// empty is an empty answer.
func empty(*http.Request) io.Reader { return strings.NewReader("{}") }

// untilDone is a body that has begun and blocks until its request is cancelled.
type untilDone struct {
	ctx   context.Context
	begun bool
}

func (b *untilDone) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		return copy(p, `{"informers":`), nil
	}
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// quietly runs body in a bubble with a process that answers this way.
func quietly(t *testing.T, answers answering, body func(t *testing.T, process *debug.Client, s *silence, stderr *debugtest.Transcript)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr debugtest.Transcript
		client := &http.Client{Transport: answers}
		s := breakSilence(client, "pod/janitor", &config.Config{}, false, terminal.NewConsole(debugtest.Onto(&stdout, &stderr), false))
		body(t, debug.Attach("http://janitor", client), s, &stderr)
	})
}

// A waiting command says once what it waits for, until there is an answer.
func TestLateAnswersAreReported(t *testing.T) {
	late := regexp.MustCompile(`(?m)^! \S+  waiting       no answer from pod/janitor for 3s \(waiting for a connection\)$`)
	quietly(t, after(10*time.Second, "application/json", empty), func(t *testing.T, process *debug.Client, s *silence, stderr *debugtest.Transcript) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { _, _ = process.Status(t.Context()) }) // the result does not matter
		}
		time.Sleep(terminal.LateAfter - time.Millisecond)
		require.Empty(t, stderr.String())
		both.Wait()
		require.Len(t, late.FindAllString(stderr.String(), -1), 1, stderr)
		require.NoError(t, s.unheard())
		_, _ = process.Status(t.Context())
		require.Len(t, late.FindAllString(stderr.String(), -1), 2, "it was silent again\n%s", stderr)
	})
	quietly(t, after(time.Second, "application/json", empty), func(t *testing.T, process *debug.Client, s *silence, stderr *debugtest.Transcript) {
		_, err := process.Status(t.Context())
		require.NoError(t, err)
		require.Empty(t, stderr.String())
	})
}

// At the timeout, unanswered requests are reported.
func TestUnansweredRequestsAreReported(t *testing.T) {
	quietly(t, after(time.Hour, "application/json", empty), func(t *testing.T, process *debug.Client, s *silence, _ *debugtest.Transcript) {
		require.NoError(t, s.unheard())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := process.Status(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, s.unheard(), "no answer from pod/janitor for 5s (waiting for a connection)")
	})
}

// An answer that stops in the middle times out; a stream does not.
func TestAnswersThatStopInTheMiddle(t *testing.T) {
	for form, ends := range map[string]bool{"application/json": true, "text/event-stream": false} {
		stops := func(r *http.Request) io.Reader { return &untilDone{ctx: r.Context()} }
		quietly(t, after(time.Millisecond, form, stops), func(t *testing.T, process *debug.Client, _ *silence, stderr *debugtest.Transcript) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			var err error
			if ends {
				_, err = process.Status(ctx)
				require.ErrorContains(t, err, "no answer from pod/janitor for 1m30s (in the middle of the answer)")
				require.Equal(t, silentFor+time.Millisecond, time.Since(began))
				require.Contains(t, stderr.String(), "waiting       no answer from pod/janitor for 3s (in the middle of the answer)")
				return
			}
			for _, failed := range process.Events(ctx, "", object.Key{}) {
				err = failed
			}
			require.NoError(t, err)
			require.Equal(t, time.Hour, time.Since(began))
			require.Empty(t, stderr.String())
		})
	}
}

// Without an API server in between, none is blamed for an unreachable process.
func TestNoAPIServerIsBlamedForAProcess(t *testing.T) {
	dead := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	const advice = "check that the API server is running"
	for _, direct := range []bool{true, false} {
		client := &http.Client{Transport: answering(func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("%w: "+advice, dead) })}
		breakSilence(client, "the process", &config.Config{}, direct, terminal.NewConsole(terminal.Quiet(), false))
		_, err := debug.Attach("http://there", client).Status(t.Context())
		require.ErrorIs(t, err, dead)
		require.Equal(t, !direct, strings.Contains(err.Error(), advice), err)
	}
}
