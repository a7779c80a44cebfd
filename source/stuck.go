package source

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// StuckError says what a request waited for when it was given up: by its own
// limit, by that of its caller, or because the connection was lost.
type StuckError struct {
	// Host is the server that gave no answer. It is empty where the server had not
	// been asked yet.
	Host string

	// What was waited for: "TLS handshake", or `exec plugin "aws"`.
	What string

	// For is how long it was waited for.
	For time.Duration

	// Err ended the waiting.
	Err error
}

// Error reads "no answer from HOST for 10s (TLS handshake): ..." or "waiting for
// exec plugin "aws" since 10s: ...".
func (e *StuckError) Error() string {
	text := fmt.Sprintf("waiting for %s since %s", e.What, round(e.For))
	if e.Host != "" {
		text = fmt.Sprintf("no answer from %s for %s (%s)", e.Host, round(e.For), e.What)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *StuckError) Unwrap() error { return e.Err }

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// Progress tells what a request waits for while it lasts. A caller puts one into the
// context of its request (WithProgress) and asks it (Waiting) when the answer is
// late; the source notes each step. It is safe for concurrent use. A nil Progress
// notes nothing.
type Progress struct {
	mu    sync.Mutex // guards the four below
	host  string
	what  string
	since time.Time
	rests bool

	whole *Progress // which notes the same; see Part
}

// Part returns a Progress for one of several requests that may be under way at a time:
// what it notes is noted in p too, and it does not know what the others do.
func (p *Progress) Part() *Progress { return &Progress{whole: p} }

// Step notes what is waited for from now on. The host is empty as long as the
// server has not been asked.
func (p *Progress) Step(host, what string) { p.note(host, what, false) }

// Rest notes that the source itself waits from now on, because the server has answered
// and asked it to. Until the next step, nobody need blame the server for silence.
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

// Resting reports whether the last that was noted is a rest.
func (p *Progress) Resting() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rests
}

// Waiting returns what is waited for, and since when, as an error whose reason is
// err. It is nil where nothing was noted.
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

// WithProgress returns a context whose requests note their steps in p.
func WithProgress(ctx context.Context, p *Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// ProgressOf returns what WithProgress put into ctx, nil if nothing.
func ProgressOf(ctx context.Context) *Progress {
	p, _ := ctx.Value(progressKey{}).(*Progress)
	return p
}
