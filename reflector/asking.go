package reflector

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/source"
)

// lateAnswer is after how long the log says what a request waits for.
const lateAnswer = 10 * time.Second

// ask returns a context for a request. What the request waits for shows in Status, and
// after a while in the log, until answered is called. So does a transform, as long as the
// request lasts.
func (r *Reflector) ask(ctx context.Context) (asking context.Context, answered func()) {
	p := new(source.Progress)
	r.asking.Store(p)
	late := time.AfterFunc(lateAnswer, func() {
		if stuck := p.Waiting(nil); stuck != nil && r.asking.Load() == p && !r.calls.running() {
			r.opts.Logger.Warn("reflector request is late", "resource", r.Name(), "cause", stuck.Error())
		}
	})
	return withCalls(jitter.WithRecall(source.WithProgress(ctx, p), &r.pace.recall), &r.calls), func() {
		late.Stop()
		r.asking.CompareAndSwap(p, nil)
	}
}

// waiting says what the request under way waits for, or for which transform; empty if it has
// been answered, and where that has taken less than a second.
func (r *Reflector) waiting() string {
	stuck := r.calls.waiting()
	if stuck == nil {
		stuck = r.asking.Load().Waiting(nil)
	}
	if stuck != nil && stuck.For >= time.Second {
		return stuck.Error()
	}
	return ""
}
