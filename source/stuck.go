package source

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// StuckError describes what a request was waiting for when it timed out, its caller canceled it, or the
// connection was lost.
type StuckError struct {
	// Host is the server that did not respond. It is empty if the request had not been sent.
	Host string

	// What describes the operation the request was waiting for, such as "TLS handshake" or `exec plugin
	// "aws"`.
	What string

	// For is how long the request had been waiting.
	For time.Duration

	// Err is the error that ended the wait.
	Err error
}

// Error returns "no answer from HOST for 10s (TLS handshake): ..." or "waiting for exec plugin
// "aws" for 10s: ...".
func (e *StuckError) Error() string {
	text := fmt.Sprintf("waiting for %s for %s", e.What, round(e.For))
	if e.Host != "" {
		text = fmt.Sprintf("no answer from %s for %s (%s)", e.Host, round(e.For), e.What)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *StuckError) Unwrap() error { return e.Err }

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// Progress tracks what a request is waiting for. A caller puts one into its request's context (WithProgress)
// and calls Waiting when the response is late; the source records each step. It is safe for concurrent use. A
// nil Progress does nothing.
type Progress struct {
	mu    sync.Mutex // guards the next four fields
	host  string
	what  string
	since time.Time
	rests bool

	whole *Progress // also records the steps; see Part
}

// Part returns a Progress for one of several concurrent requests. p records its steps too, but the new
// Progress does not see the other requests' steps.
func (p *Progress) Part() *Progress { return &Progress{whole: p} }

// Step records the start of a wait. The host is empty before the request is sent.
func (p *Progress) Step(host, what string) { p.note(host, what, false) }

// Rest records that the source itself is waiting, because the server asked it to. Until the next step,
// silence is not the server's fault.
func (p *Progress) Rest(what string) { p.note("", what, true) }

func (p *Progress) note(host, what string, rests bool) {
	if p == nil {
		return
	}
	now := time.Now()
	p.mu.Lock()
	p.host, p.what, p.since, p.rests = host, what, now, rests
	p.mu.Unlock()
	p.whole.note(host, what, rests)
}

// Moved records that the request is not waiting, because some of the response has arrived.
func (p *Progress) Moved() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host, p.what, p.rests = "", "", false
}

// Resting reports whether the last recorded step is a Rest.
func (p *Progress) Resting() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rests
}

// Waiting returns an error that describes the current wait and its duration and wraps err, or nil if no step
// was recorded.
func (p *Progress) Waiting(err error) *StuckError {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what == "" {
		return nil
	}
	return &StuckError{Host: p.host, What: p.what, For: time.Since(p.since), Err: err}
}

type progressKey struct{}

// WithProgress returns a context whose requests record their steps in p.
func WithProgress(ctx context.Context, p *Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// ProgressOf returns the Progress that WithProgress put into ctx, or nil.
func ProgressOf(ctx context.Context) *Progress {
	p, _ := ctx.Value(progressKey{}).(*Progress)
	return p
}
