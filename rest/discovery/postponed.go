package discovery

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/source"
)

// refusals remembers which documents the server wants to be asked for later, and with what
// it said so. A run asks for several, and goes on without those that fail: so a caller who
// finds its kind in the others learns of no wait.
type refusals struct {
	mu sync.Mutex // guards what follows; no call out
	of map[string]refused
}

// refused is an answer with a Retry-After.
type refused struct {
	err   error
	until time.Time
}

// heed returns get without what comes too early: that fails as it did before.
func (r *refusals) heed(get Get) Get {
	return func(ctx context.Context, path, accept string) ([]byte, string, error) {
		if err := r.standing(path); err != nil {
			return nil, "", err
		}
		body, contentType, err := get(ctx, path, accept)
		r.note(path, err)
		return body, contentType, err
	}
}

// standing returns why path is not to be asked for now, or nil.
func (r *refusals) standing(path string) error {
	r.mu.Lock()
	last, ok := r.of[path]
	r.mu.Unlock()
	left := time.Until(last.until)
	if !ok || left <= 0 {
		return nil
	}
	return postpone(last.err, left)
}

// note keeps how the server answered. The wait begins when the answer is there.
func (r *refusals) note(path string, err error) {
	wait, asked := source.RetryAfter(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !asked {
		delete(r.of, path)
		return
	}
	if r.of == nil {
		r.of = map[string]refused{}
	}
	r.of[path] = refused{err, time.Now().Add(wait)}
}

// postponed is a refusal that still stands. It is the error that the server gave, but for
// what is left of the wait.
type postponed struct {
	error
	status metav1.Status
}

func postpone(err error, left time.Duration) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err
	}
	status := answer.Status()
	details := *status.Details // as it asked for a wait
	details.RetryAfterSeconds = int32(math.Ceil(left.Seconds()))
	status.Details = &details
	return &postponed{err, status}
}

// Status implements apierrors.APIStatus.
func (p *postponed) Status() metav1.Status { return p.status }

// Unwrap returns what the server said.
func (p *postponed) Unwrap() error { return p.error }
