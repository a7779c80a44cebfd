package debug

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/millrace-dev/millrace/failure"
)

// Client returns a client that asks p without a network between, for programs that show
// themselves.
func (p *Process) Client() *Client {
	return Attach("http://process", &http.Client{Transport: local{p}})
}

// local is a transport to a handler of this process. The goroutine of a request ends when its
// answer has been read or closed, or its context is done.
type local struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = body.CloseWithError(context.Cause(ctx)) }) // it never fails
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
		stop() // or the end would look like a cancelled request
		if err == nil {
			err = context.Cause(ctx) // a handler that left for that is not at its end
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

// localBody is an answer's body. To close it ends the request.
type localBody struct {
	io.ReadCloser
	cancel func()
}

func (b localBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// localAnswer is the handler's end of an answer.
type localAnswer struct {
	header http.Header
	body   io.Writer
	once   sync.Once
	begun  chan struct{} // closed when code and sent are set
	code   int
	sent   http.Header
}

// Header implements http.ResponseWriter.
func (a *localAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *localAnswer) WriteHeader(code int) {
	a.once.Do(func() {
		a.code, a.sent = code, a.header.Clone()
		close(a.begun)
	})
}

// Write implements http.ResponseWriter. It waits for the reader.
func (a *localAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher: nothing is kept back.
func (a *localAnswer) Flush() { a.WriteHeader(http.StatusOK) }
