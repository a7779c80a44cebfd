package webhook

import (
	"net/http"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// Metrics hears how the webhooks of a server are doing. Its methods may be called
// by several servers at once.
type Metrics interface {
	// Register is called once for each path, before anything is asked there.
	Register(path string) Recorder
}

// Recorder hears of the requests of one path. Its methods are called by several
// goroutines at once.
type Recorder interface {
	// Started is called when a request has come.
	Started()

	// Ended is called when the request was answered with an HTTP status; a request
	// that was refused was answered with 200. Panicked says that the webhook
	// panicked or ended its goroutine. Validate, Mutate and Conversion make a
	// refusal of that; another handler breaks the connection off, which counts as 500.
	Ended(code int, took time.Duration, panicked bool)
}

// measured tells recorder of every request to h. A recorder that panics or ends
// its goroutine is logged, and is of no harm to the answer.
func measured(recorder Recorder, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, call := time.Now(), callOf(r.Context())
		tell := func(what func()) {
			call.failedMetrics(failure.Apart("the webhook's metrics", func() error { what(); return nil }))
		}
		tell(recorder.Started)
		answer := &answered{ResponseWriter: w, code: http.StatusOK}
		returned := false
		defer func() {
			if !returned {
				answer.code = http.StatusInternalServerError
			}
			tell(func() { recorder.Ended(answer.code, time.Since(began), !returned || call.panicked) })
		}()
		h.ServeHTTP(answer, r)
		returned = true
	})
}

// answered notes the status of an answer.
type answered struct {
	http.ResponseWriter
	code int
}

// WriteHeader notes the status and sends it.
func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap gives http.ResponseController what it looks for.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
