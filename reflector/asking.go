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
// after a while in the log, until answered is called.
func (r *Reflector[T]) ask(ctx context.Context) (asking context.Context, answered func()) {
	p := new(source.Progress)
	r.asking.Store(p)
	late := time.AfterFunc(lateAnswer, func() {
		if stuck := p.Waiting(nil); stuck != nil && r.asking.Load() == p {
			r.opts.Logger.Warn("reflector request is late", "resource", r.Name(), "cause", stuck.Error())
		}
	})
	return jitter.WithRecall(source.WithProgress(ctx, p), &r.pace.recall), func() {
		late.Stop()
		r.asking.CompareAndSwap(p, nil)
	}
}

// waiting says what the request under way waits for; empty if it has been answered, or
// has waited for less than a second.
func (r *Reflector[T]) waiting() string {
	if stuck := r.asking.Load().Waiting(nil); stuck != nil && stuck.For >= time.Second {
		return stuck.Error()
	}
	return ""
}
