package attach

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
)

// silentFor is how long, by default, a process may stall before the request is abandoned.
const silentFor = 90 * time.Second

// The steps a request may be waiting in.
const (
	stepConnection = "waiting for a connection"
	stepLookup     = "name lookup"
	stepConnect    = "connecting"
	stepHandshake  = "TLS handshake"
	stepHead       = "the request is sent"
	stepBody       = "in the middle of the answer"
)

// silence is an http.RoundTripper that sends requests to a process. If a response is late, it prints one
// message explaining the wait, and no more until a response arrives. It gives up on responses that stall
// midway. It is safe for concurrent use.
type silence struct {
	next   http.RoundTripper
	called string        // name used in messages
	within time.Duration // how long a response may stall
	direct bool          // requests do not pass through an API server

	mu      sync.Mutex // guards the fields below
	console *terminal.Console
	told    bool  // whether a message was printed since the last response
	missing error // state of the last request, if it has not been answered
}

// breakSilence wraps the client's transport in a [silence]. direct means that requests do not pass
// through an API server.
func breakSilence(client *http.Client, called string, cfg *config.Config, direct bool, c *terminal.Console) *silence {
	s := &silence{next: client.Transport, called: called, within: cmp.Or(cfg.Timeout, silentFor), direct: direct, console: c}
	client.Transport = s
	return s
}

// RoundTrip implements http.RoundTripper.
func (s *silence) RoundTrip(req *http.Request) (*http.Response, error) {
	asked := req.Context()
	p := new(source.Progress)
	ctx, cancel := context.WithCancelCause(s.traced(asked, p))
	told := terminal.After(terminal.LateAfter, func() { s.tell(p.Waiting(nil)) })
	resp, err := s.next.RoundTrip(req.WithContext(ctx))
	told()
	if err != nil {
		cancel(nil)
		return nil, s.unanswered(asked, p.Waiting(nil), err)
	}
	s.answered()
	form, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // empty if malformed
	resp.Body = &answerBody{
		ReadCloser: resp.Body, silence: s, ctx: ctx, cancel: cancel,
		endless: resp.StatusCode == http.StatusOK && form != "application/json",
	}
	return resp, nil
}

// traced returns a context that makes the request record its steps in p.
func (s *silence) traced(ctx context.Context, p *source.Progress) context.Context {
	step := func(what string) { p.Step(s.called, what) }
	step(stepConnection)
	return httptrace.WithClientTrace(source.WithProgress(ctx, p), &httptrace.ClientTrace{
		GetConn:           func(string) { step(stepConnection) },
		DNSStart:          func(httptrace.DNSStartInfo) { step(stepLookup) },
		ConnectStart:      func(string, string) { step(stepConnect) },
		TLSHandshakeStart: func() { step(stepHandshake) },
		GotConn:           func(httptrace.GotConnInfo) { step(stepHead) },
	})
}

// tell prints what the request is waiting for, unless it has already done so since the last response.
func (s *silence) tell(what error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told {
		s.told = true
		s.console.Trouble(time.Now(), "%-12s  %v", "waiting", what)
	}
}

func (s *silence) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.missing = false, nil
}

// unanswered returns the error for a request without a response. If the process was silent for too long,
// the error includes the step and the duration.
func (s *silence) unanswered(asked context.Context, waited *source.StuckError, err error) error {
	if asked.Err() == nil && !mute(err) {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && s.direct {
			return op // omit the advice about API servers
		}
		return err
	}
	if waited.For >= time.Second {
		s.mu.Lock()
		s.missing = waited
		s.mu.Unlock()
	}
	if asked.Err() != nil {
		return err
	}
	return waited
}

// mute reports whether err means that a reachable server was silent for too long.
func mute(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout() || strings.Contains(err.Error(), "http2: client connection lost") // this error has no distinct type
}

// unheard implements [Flags.Unheard].
func (s *silence) unheard() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missing
}

// answerBody is a response body. Unless it is an endless stream, such as one of events, it must arrive
// without long pauses.
type answerBody struct {
	io.ReadCloser
	silence *silence
	ctx     context.Context
	cancel  context.CancelCauseFunc
	endless bool
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	if b.endless {
		return b.ReadCloser.Read(p)
	}
	began := time.Now()
	waited := func() *source.StuckError {
		return &source.StuckError{Host: b.silence.called, What: stepBody, For: time.Since(began)}
	}
	told := terminal.After(terminal.LateAfter, func() { b.silence.tell(waited()) })
	given := terminal.After(b.silence.within, func() { b.cancel(waited()) })
	n, err := b.ReadCloser.Read(p)
	told()
	given()
	if err != nil && err != io.EOF {
		if stuck, ok := errors.AsType[*source.StuckError](context.Cause(b.ctx)); ok {
			return n, stuck
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
