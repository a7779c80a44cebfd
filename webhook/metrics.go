package webhook

import (
	"net/http"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// MetricsProvider makes the Metrics of each path of a server. Several servers may call it
// concurrently.
type MetricsProvider interface {
	// Register is called once for each path, before its first request.
	Register(path string) Metrics
}

// Metrics measures the requests of one path. Its methods are called concurrently.
type Metrics interface {
	// Started is called when a request arrives.
	Started()

	// Ended is called after the answer, with its HTTP status: 200 for a refused
	// request too. Panicked reports that the webhook panicked or ended its goroutine;
	// Validate, Mutate and Conversion then refuse the request, and any other handler
	// closes the connection, which counts as 500.
	Ended(code int, took time.Duration, panicked bool)
}

// measured calls metrics for every request to h. Metrics that panic or end their goroutine
// are logged and do not harm the answer.
func measured(metrics Metrics, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, call := time.Now(), callOf(r.Context())
		tell := func(what func()) {
			call.failedMetrics(failure.Apart("the webhook's metrics", func() error { what(); return nil }))
		}
		tell(metrics.Started)
		answer := &answered{ResponseWriter: w, code: http.StatusOK}
		returned := false
		defer func() {
			if !returned {
				answer.code = http.StatusInternalServerError
			}
			tell(func() { metrics.Ended(answer.code, time.Since(began), !returned || call.panicked) })
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
