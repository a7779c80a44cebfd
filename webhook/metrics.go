package webhook

import (
	"net/http"
	"time"
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

	// Ended is called when it was answered with an HTTP status; a request that was
	// refused is one that was answered with 200. Panicked says that the function
	// has panicked, which is answered with 500.
	Ended(code int, took time.Duration, panicked bool)
}

// measured tells recorder of every request to h.
func measured(recorder Recorder, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		recorder.Started()
		answer := &answered{ResponseWriter: w, code: http.StatusOK}
		panicked := true // until h has returned
		defer func() {
			if panicked {
				answer.code = http.StatusInternalServerError
			}
			recorder.Ended(answer.code, time.Since(began), panicked)
		}()
		h.ServeHTTP(answer, r)
		panicked = false
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
