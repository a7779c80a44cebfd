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

// The steps of a request, as a source.StuckError names them.
const (
	stepConnection = "waiting for a connection"
	stepLookup     = "name lookup"
	stepConnect    = "connecting"
	stepHandshake  = "TLS handshake"
	stepSend       = "sending the request"
	stepHead       = "the request is sent"
	stepBody       = "in the middle of the answer"
)

// errUnread is the cause of a request that was given up while it was sent.
var errUnread = errors.New("it is not read to its end")

// traced returns a context whose request notes its steps, and in the caller's Progress
// too, if there is one. A request that is not sent within limit, once it has a connection, is
// canceled: net/http waits for that without a limit. The timer, which does it, must be
// stopped when there is an answer.
func traced(ctx context.Context, host string, limit time.Duration, cancel context.CancelCauseFunc) (context.Context, *source.Progress, *time.Timer) {
	p := source.ProgressOf(ctx).Part()
	ctx = source.WithProgress(ctx, p)
	p.Step(host, stepConnection)
	sending := time.AfterFunc(limit, func() { cancel(errUnread) })
	sending.Stop() // until there is a connection
	// A request that gets another's connection leaves its own dial behind, which goes on and is
	// not waited for. On HTTP/2 that is so for all but one of those that begin together.
	var mu sync.Mutex // guards connected; a lock of p is taken under it
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

// noAnswer says why there is no answer. Where the request waited until somebody gave
// up, it says for what and how long.
func noAnswer(ctx context.Context, host string, p *source.Progress, err error) error {
	if _, ok := errors.AsType[*source.StuckError](err); ok {
		return err // it names what it waited for already
	}
	if ctx.Err() != nil || timedOut(err) {
		reason := withCause(ctx, err)
		if context.Cause(ctx) == errUnread {
			reason = errUnread // on HTTP/2, err is that the context was canceled, as if the caller had done it
		}
		if stuck := p.Waiting(reason); stuck != nil {
			return stuck
		}
	}
	return fmt.Errorf("no answer from %s: %w", host, unnamed(host, err))
}

// silentFor is how long a connection brings no answer until it may be half open.
const silentFor = time.Second

// halfOpen reports whether a request may have been given up because its connection was half
// open. Then those that are idle may be so too: on HTTP/1.1 one request after the other would
// try them, and each would wait for its time.
func halfOpen(err error) bool {
	stuck, ok := errors.AsType[*source.StuckError](err)
	return ok && stuck.What == stepHead && stuck.For >= silentFor
}

// unnamed returns an error of dialling host whose text does not name it again.
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

// hostname cuts the port off, if there is one.
func hostname(address string) string {
	if name, _, err := net.SplitHostPort(address); err == nil {
		return name
	}
	return strings.Trim(address, "[]")
}

// retold is an error with another text.
type retold struct {
	text string
	err  error
}

func (e *retold) Error() string { return e.text }
func (e *retold) Unwrap() error { return e.err }

// timedOut reports whether err says that nothing came for too long. What net/http
// says of a connection that answers no ping has no type.
func timedOut(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout() || strings.Contains(err.Error(), "http2: client connection lost")
}

// brokenOff is what net/http says, without a type, of a connection that it closed because it
// could not write to it: the other end is gone.
const brokenOff = "http2: client connection force closed via ClientConn.Close"

// body is the body of an answer. A connection that died in the middle of it is
// reported with how long it was silent, or that it broke.
type body struct {
	io.ReadCloser
	host   string
	cancel context.CancelFunc // of the request
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil, err == io.EOF:
	case timedOut(err) && !errors.Is(err, context.DeadlineExceeded):
		err = &source.StuckError{Host: b.host, What: stepBody, For: config.DeadAfter, Err: err}
	case err.Error() == brokenOff:
		err = &retold{"connection lost: nothing could be written to it", err}
	}
	return n, err
}

// Close implements io.Closer. It ends a read that is under way: for that the request is
// canceled first, since net/http may hold a lock while it reads.
func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
