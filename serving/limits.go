package serving

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// What any caller may take. Nobody is authenticated before
// the headers have been read.
const (
	headerPatience = 10 * time.Second // for a TLS handshake, and for the headers of a request of HTTP/1.1
	bodyPatience   = 30 * time.Second // for its body: the longest timeout of a webhook
	answerPatience = 2 * time.Minute  // for handler and answer: a scrape or a profile takes a minute at most
	idlePatience   = 90 * time.Second // for the next request of a connection: with HTTP/2, for its headers too

	maxHeader = 64 << 10 // in bytes: a token of 16 KB and everything else
)

// guarded calls next with a deadline for the request's body, and logs a panic or
// a runtime.Goexit.
func guarded(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			// The deadline holds for what net/http reads after the handler, too.
			control := http.NewResponseController(w)
			if err := control.SetReadDeadline(time.Now().Add(bodyPatience)); err == nil {
				r.Body = &punctual{ReadCloser: r.Body, control: control}
			}
		}
		returned := false
		defer func() {
			p := recover()
			switch {
			case returned:
				return
			case p == nil:
				log.Error("a handler called runtime.Goexit, as FailNow of a test does", "path", clipped(r.URL.Path))
				return // net/http breaks the connection off
			}
			if p != http.ErrAbortHandler {
				log.Error("a handler panicked", "path", clipped(r.URL.Path), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler) // breaks the connection off, without a word of net/http's
		}()
		next.ServeHTTP(w, r)
		returned = true
	})
}

// punctual is a body with a deadline, which ends with the body: net/http goes on
// to read from the connection, to see whether the client has gone.
type punctual struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read reads from the body.
func (p *punctual) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err == io.EOF {
		// Fails only where the connection has ended.
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// clipped is a caller's text as a log may have it.
func clipped(s string) string {
	if len(s) > maxPath {
		return s[:maxPath] + "..."
	}
	return s
}
