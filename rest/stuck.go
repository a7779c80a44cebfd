package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
)

// The steps of a request, as they appear in a source.StuckError.
const (
	stepConnection = "waiting for a connection"
	stepLookup     = "name lookup"
	stepConnect    = "connecting"
	stepHandshake  = "TLS handshake"
	stepSend       = "sending the request"
	stepHead       = "the request is sent"
	stepBody       = "in the middle of the answer"
)

// errUnread is the cancellation cause for a request that could not be sent in time.
var errUnread = errors.New("the server is not reading it")

// traced returns a context that records the request's steps, also in the caller's Progress if there is one.
// The timer cancels the request if it has not been sent within limit of getting a connection, because
// net/http would wait indefinitely. The caller must stop the timer when the response arrives.
func traced(ctx context.Context, host string, limit time.Duration, cancel context.CancelCauseFunc) (context.Context, *source.Progress, *time.Timer) {
	p := source.ProgressOf(ctx).Part()
	ctx = source.WithProgress(ctx, p)
	p.Step(host, stepConnection)
	sending := time.AfterFunc(limit, func() { cancel(errUnread) })
	sending.Stop() // start it once there is a connection
	// A request that gets another request's connection abandons its own dial, which continues in the
	// background. With HTTP/2, that happens to all but one of the requests that start at the same time.
	var mu sync.Mutex // guards connected; p's lock may be taken under it
	connected := false
	dial := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if !connected {
			p.Step(host, what)
		}
	}
	connect := func(yes bool, what string) {
		mu.Lock()
		defer mu.Unlock()
		connected = yes
		p.Step(host, what)
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:           func(string) { connect(false, stepConnection) },
		DNSStart:          func(httptrace.DNSStartInfo) { dial(stepLookup) },
		ConnectStart:      func(string, string) { dial(stepConnect) },
		TLSHandshakeStart: func() { dial(stepHandshake) },
		GotConn: func(httptrace.GotConnInfo) {
			connect(true, stepSend)
			sending.Reset(limit)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			sending.Stop()
			if info.Err == nil {
				p.Step(host, stepHead)
			}
		},
	}), p, sending
}

// noAnswer returns the error for a request without a response. If the request timed out or was canceled,
// the error includes what the request was waiting for and for how long.
func noAnswer(ctx context.Context, host string, p *source.Progress, err error) error {
	if _, ok := errors.AsType[*source.StuckError](err); ok {
		return err // err already mentions what the request was waiting for
	}
	if ctx.Err() != nil || timedOut(err) {
		reason := withCause(ctx, err)
		if context.Cause(ctx) == errUnread {
			reason = errUnread // with HTTP/2, err looks as if the caller had canceled
		}
		if stuck := p.Waiting(reason); stuck != nil {
			return stuck
		}
	}
	return fmt.Errorf("no answer from %s: %w", host, unnamed(host, err))
}

// silentFor is how long a connection must have been silent to be suspected of being half open.
const silentFor = time.Second

// halfOpen reports whether a request may have failed because its connection was half open. The idle
// connections may then be half open too; with HTTP/1.1, requests would try one after the other and time out
// each time.
func halfOpen(err error) bool {
	stuck, ok := errors.AsType[*source.StuckError](err)
	return ok && stuck.What == stepHead && stuck.For >= silentFor
}

// unnamed removes the address from a dial error's text, because the caller adds the host.
func unnamed(host string, err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "dial" {
		return err
	}
	text, name := err.Error(), hostname(host)
	if op.Addr != nil && hostname(op.Addr.String()) == name {
		text = strings.Replace(text, " "+op.Addr.String()+": ", ": ", 1)
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok && lookup.Name == name {
		text = strings.Replace(text, "lookup "+name, "lookup", 1)
	}
	return &retold{text, err}
}

// hostname removes the port, if any.
func hostname(address string) string {
	if name, _, err := net.SplitHostPort(address); err == nil {
		return name
	}
	return strings.Trim(address, "[]")
}

// retold replaces an error's text.
type retold struct {
	text string
	err  error
}

func (e *retold) Error() string { return e.text }
func (e *retold) Unwrap() error { return e.err }

// timedOut reports whether err means that nothing was received for too long. net/http's error for an
// unanswered ping has no type.
func timedOut(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout() || strings.Contains(err.Error(), "http2: client connection lost")
}

// brokenOff is the text of net/http's untyped error for a connection that it closed
// because a write failed: the peer is gone.
const brokenOff = "http2: client connection force closed via ClientConn.Close"

// body is a response body. If the connection fails midway, Read's error states how long it was silent, or
// that it broke.
type body struct {
	io.ReadCloser
	host   string
	cancel context.CancelFunc // cancels the request
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil, err == io.EOF:
	case timedOut(err) && !errors.Is(err, context.DeadlineExceeded):
		err = &source.StuckError{Host: b.host, What: stepBody, For: config.DeadAfter, Err: err}
	case err.Error() == brokenOff:
		err = &retold{"connection lost: writing to it failed", err}
	}
	return n, err
}

// Close closes the body and interrupts a Read in progress. It first cancels the request, because net/http
// may hold a lock during a Read.
func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
