package lease

import (
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/throttle"
)

// Failure is a failed request to the server.
type Failure struct {
	Err  error
	When time.Time
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// MarshalText makes the JSON encoding of a status readable.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// Trouble counts failures since the last success and logs them at a decreasing rate.
type Trouble struct {
	Logger *slog.Logger

	mu       sync.Mutex // guards the fields below; no other code is called while it is held
	attempts int
	last     *Failure
	log      *throttle.Log // logs the failures since the last success
}

// Failed records a failure and logs it with the message what.
func (t *Trouble) Failed(what string, err error) {
	t.mu.Lock()
	if t.attempts == 0 {
		t.log = new(throttle.Log)
	}
	t.attempts, t.last = t.attempts+1, &Failure{err, time.Now()}
	attempts, log := t.attempts, t.log
	t.mu.Unlock()
	log.Do(func(int) { t.Logger.Warn(what, "err", err, "attempts", attempts) })
}

// Answered records a success, and logs it if it follows failures.
func (t *Trouble) Answered() {
	t.mu.Lock()
	failed := t.attempts
	t.attempts = 0
	t.mu.Unlock()
	if failed > 0 {
		t.Logger.Info("the API server answers again", "failed", failed)
	}
}

// State returns the number of failures since the last success, and the last failure or nil.
func (t *Trouble) State() (attempts int, last *Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attempts, t.last
}
