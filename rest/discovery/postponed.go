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

// refusals remembers which documents the server asked us to request later, and with which errors. It does
// not delay a run: the run continues without these documents, so callers whose kinds are in other documents
// do not have to wait.
type refusals struct {
	mu sync.Mutex // guards of; never held while sending requests
	of map[string]refused
}

// refused is a response with a Retry-After.
type refused struct {
	err   error
	until time.Time
}

// heed wraps get so that a request made too early fails with the earlier error.
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

// standing returns an error if path may not be requested yet, and nil otherwise.
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

// note records the response. The wait starts when the response arrives.
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

// postponed is a refusal that still applies: the server's error with the remaining wait.
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
	details := *status.Details // not nil, because it contains a RetryAfterSeconds
	details.RetryAfterSeconds = int32(math.Ceil(left.Seconds()))
	status.Details = &details
	return &postponed{err, status}
}

func (p *postponed) Status() metav1.Status { return p.status }

// Unwrap returns the server's error.
func (p *postponed) Unwrap() error { return p.error }
