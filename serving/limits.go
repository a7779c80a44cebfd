package serving

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// Limits for all clients. No client is authenticated before its headers have been read.
const (
	headerPatience = 10 * time.Second // for a TLS handshake, and for the request headers on HTTP/1.1
	bodyPatience   = 30 * time.Second // for the request body: the longest webhook timeout
	answerPatience = 2 * time.Minute  // for the handler and the response: a scrape or a profile takes at most a minute
	idlePatience   = 90 * time.Second // until the next request on a connection; for HTTP/2 including its headers

	maxHeader = 64 << 10 // in bytes: a token of 16 KB plus the rest
)

// guarded calls next with a deadline for the request body, and logs panics and
// runtime.Goexit.
func guarded(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			// The deadline also covers reads by net/http after the handler has returned.
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
				log.Error("a handler called runtime.Goexit, as testing.T.FailNow does", "path", clipped(r.URL.Path))
				return // net/http closes the connection
			}
			if p != http.ErrAbortHandler {
				log.Error("a handler panicked", "path", clipped(r.URL.Path), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler) // closes the connection without a log message from net/http
		}()
		next.ServeHTTP(w, r)
		returned = true
	})
}

// punctual clears the read deadline at the end of the body, because net/http keeps reading from the
// connection to detect disconnects.
type punctual struct {
	io.ReadCloser
	control *http.ResponseController
}

func (p *punctual) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err == io.EOF {
		// This fails only if the connection is closed.
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// clipped truncates caller-supplied text for the log.
func clipped(s string) string {
	if len(s) > maxPath {
		return s[:maxPath] + "..."
	}
	return s
}
