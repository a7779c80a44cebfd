package reflector

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/source"
)

// lateAnswer is after how long the log says what a request waits for.
const lateAnswer = 10 * time.Second

// trackRequest returns a context for a request. Until answered is called, Status says what the
// request waits for, and the log does if that takes long. The same holds for a transform, as long
// as the request lasts.
func (r *Reflector) trackRequest(ctx context.Context) (request context.Context, answered func()) {
	p := new(source.Progress)
	r.inFlight.Store(p)
	late := time.AfterFunc(lateAnswer, func() {
		if stuck := p.Waiting(nil); stuck != nil && r.inFlight.Load() == p && !r.calls.running() {
			r.opts.Logger.Warn("reflector request is late", "resource", r.Name(), "cause", stuck.Error())
		}
	})
	return withCallMonitor(jitter.WithRecall(source.WithProgress(ctx, p), &r.pace.recall), &r.calls), func() {
		late.Stop()
		r.inFlight.CompareAndSwap(p, nil)
	}
}

// waiting says what the request under way waits for, or for which transform; empty if it has
// been answered, and where that has taken less than a second.
func (r *Reflector) waiting() string {
	stuck := r.calls.waiting()
	if stuck == nil {
		stuck = r.inFlight.Load().Waiting(nil)
	}
	if stuck != nil && stuck.For >= time.Second {
		return stuck.Error()
	}
	return ""
}
