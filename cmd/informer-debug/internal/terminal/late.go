package terminal

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/source"
)

// LateAfter is how long whoever waits is left without a word.
const LateAfter = 3 * time.Second

// Late returns a context for questions to an API server whose answers are short. After LateAfter
// it is told on c what they wait for, unless stop was called before.
func Late(ctx context.Context, c *Console) (_ context.Context, stop func()) {
	p := new(source.Progress)
	return source.WithProgress(ctx, p), After(LateAfter, func() {
		if stuck := p.Waiting(nil); stuck != nil && !p.Resting() {
			c.Trouble(time.Now(), "%-12s  %v", "waiting", stuck)
		}
	})
}

// After calls f after d, unless stop is called before. Stop waits for a call that has begun.
func After(d time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() {
		defer close(done)
		f()
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}
