package reflector

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
)

// Backoff sets the delay between attempts: Initial after the first failure, doubling after each further
// failure up to Max. A random jitter of up to half the delay keeps clients from retrying in lockstep. A
// Retry-After from the server is a lower bound (see source.RetryAfter for its ceiling). The delay also
// returns to Initial when an attempt gets further than every earlier one in the same run of failures: for
// example, when the server responds that the kind is missing after not responding at all, when it serves the
// kind but asks the client to wait, or when the resource version has expired. The defaults are 800 ms, 30 s
// and, for Reset, 2 min.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Reset   time.Duration // the delay returns to Initial after this much time without a failure
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = 800 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = max(30*time.Second, b.Initial)
	}
	b.Max = min(b.Max, forever)
	b.Initial = min(b.Initial, b.Max)
	if b.Reset <= 0 {
		b.Reset = max(2*time.Minute, 2*b.Max)
	}
	return b
}

// pacer applies a Backoff to a run of failures.
type pacer struct {
	Backoff
	next time.Duration
	last time.Time // scheduled end of the last wait
	got  progress  // furthest progress in this run of failures

	recall jitter.Recall // for a client whose responses come from a recording
}

// progress is how far an attempt got before failing.
type progress uint8

const (
	nowhere     progress = iota
	answered             // the server responds but does not serve the kind
	served               // the server serves the kind but asks the client to wait
	historyGone          // only a list helps
)

func progressOf(f *failure.Failure) progress {
	switch {
	case expired(f.Err):
		return historyGone
	case apierrors.IsTooManyRequests(f.Err):
		return served
	case f.NotServed():
		return answered
	}
	return nowhere
}

// served returns how long a stream must last to end a run of broken streams.
func (p *pacer) served() time.Duration { return p.Max / 3 }

// delay returns how long to wait after a failure at time now with progress got. The delay returns to Initial
// if the attempt got further than all earlier ones in the run of failures. For example, an expired resource
// version after an outage is good news, because the server responds again and a list will help. If the
// version expires a second time, listing did not help. The delay also returns to Initial if a stream breaks
// after a third of Max, because a load balancer that closes every connection after a minute must not delay
// the cache.
func (p *pacer) delay(now time.Time, retryAfter time.Duration, got progress, stream bool) time.Duration {
	quiet := p.Reset
	if stream {
		quiet = min(quiet, p.served())
	}
	if p.next == 0 || now.Sub(p.last) >= quiet {
		p.next, p.got = p.Initial, got
	}
	if got > p.got {
		p.next, p.got = p.Initial, got
	}
	wait := p.next
	p.next = min(2*p.next, p.Max)
	wait = max(wait, retryAfter)
	wait += p.recall.Below(wait, wait/2+1)
	p.last = now.Add(wait)
	return wait
}
