package main

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/source"
)

// lateAfter is how long whoever waits is left without a word.
const lateAfter = 3 * time.Second

// late returns a context for questions to an API server whose answers are short. After lateAfter
// it is told on c what they wait for, unless stop was called before.
func late(ctx context.Context, c *console) (_ context.Context, stop func()) {
	p := new(source.Progress)
	return source.WithProgress(ctx, p), later(lateAfter, func() {
		if stuck := p.Waiting(nil); stuck != nil && !p.Resting() {
			c.trouble(time.Now(), "%-12s  %v", "waiting", stuck)
		}
	})
}

// later calls f after d, unless stop is called before. Stop waits for a call that has begun.
func later(d time.Duration, f func()) (stop func()) {
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
