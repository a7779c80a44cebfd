package webhook

import (
	"net/http"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// MetricsProvider creates the Metrics for each path of a server. Servers may call it concurrently.
type MetricsProvider interface {
	// Register is called once per path, before its first request.
	Register(path string) Metrics
}

// Metrics receives the metrics for one path. Its methods are called concurrently.
type Metrics interface {
	// Started is called when a request arrives.
	Started()

	// Ended is called after the response, with its HTTP status, which is 200 even for a rejected request.
	// panicked reports whether the webhook panicked or called runtime.Goexit. If it did, Validate, Mutate
	// and Conversion reject the request, and any other handler closes the connection, which is reported as
	// 500.
	Ended(code int, took time.Duration, panicked bool)
}

// measured wraps h to record metrics for every request. A panic or runtime.Goexit in metrics is
// logged and does not affect the response.
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

// answered is a ResponseWriter that records the status.
type answered struct {
	http.ResponseWriter
	code int
}

func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap supports http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
