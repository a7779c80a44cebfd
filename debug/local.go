package debug

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/millrace-dev/millrace/failure"
)

// Client returns a client that queries p directly, without a network connection, so that a program can
// inspect itself.
func (p *Process) Client() *Client {
	return Attach("http://process", &http.Client{Transport: local{p}})
}

// local is an http.RoundTripper that calls a handler in this process. Each request runs in a goroutine that
// exits once the response has been read or closed, or the request's context is done.
type local struct{ handler http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = body.CloseWithError(context.Cause(ctx)) }) // never fails
	a := &localAnswer{header: http.Header{}, body: w, begun: make(chan struct{})}
	go func() {
		defer cancel()
		err := failure.Apart(r.URL.Path, func() error {
			l.handler.ServeHTTP(a, r.WithContext(ctx))
			return nil
		})
		if err != nil {
			a.WriteHeader(http.StatusInternalServerError)
		}
		a.WriteHeader(http.StatusOK)
		stop() // otherwise normal completion would look like a canceled request
		if err == nil {
			err = context.Cause(ctx) // if the handler returned because of ctx, the response is incomplete
		}
		_ = w.CloseWithError(err)
	}()
	select {
	case <-a.begun:
		return &http.Response{
			Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)), StatusCode: a.code,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: a.sent, Body: localBody{body, cancel}, ContentLength: -1, Request: r,
		}, nil
	case <-r.Context().Done():
		cancel()
		return nil, context.Cause(r.Context())
	}
}

// localBody is a response body. Closing it cancels the request.
type localBody struct {
	io.ReadCloser
	cancel func()
}

func (b localBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// localAnswer is the http.ResponseWriter passed to the handler.
type localAnswer struct {
	header http.Header
	body   io.Writer
	once   sync.Once
	begun  chan struct{} // closed when code and sent are set
	code   int
	sent   http.Header
}

func (a *localAnswer) Header() http.Header { return a.header }

func (a *localAnswer) WriteHeader(code int) {
	a.once.Do(func() {
		a.code, a.sent = code, a.header.Clone()
		close(a.begun)
	})
}

// Write implements http.ResponseWriter. It blocks until the reader has read p.
func (a *localAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher. Nothing is buffered.
func (a *localAnswer) Flush() { a.WriteHeader(http.StatusOK) }
