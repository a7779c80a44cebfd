package terminal

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/source"
)

// LateAfter is how long the user waits before a message explains the delay.
const LateAfter = 3 * time.Second

// Late returns a context for short requests to an API server. After [LateAfter] it prints on c what they
// are waiting for, unless stop is called first.
func Late(ctx context.Context, c *Console) (_ context.Context, stop func()) {
	p := new(source.Progress)
	return source.WithProgress(ctx, p), After(LateAfter, func() {
		if stuck := p.Waiting(nil); stuck != nil && !p.Resting() {
			c.Trouble(time.Now(), "%-12s  %v", "waiting", stuck)
		}
	})
}

// After calls f after d, unless stop is called first. If f is already running, stop waits for it.
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
