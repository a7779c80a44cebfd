// Package throttle limits how often a recurring problem is logged.
package throttle

import (
	"sync"
	"time"
)

// The first and the maximum interval between two messages.
const (
	firstInterval = 10 * time.Second
	lastInterval  = 10 * time.Minute
)

// Log reports a recurring problem immediately, and then at doubling intervals. The interval is reset if
// the problem does not recur for as long as the last interval. The zero value is ready to use. It is
// safe for concurrent use.
type Log struct {
	mu       sync.Mutex // guards the fields below; no other code is called while it is held
	next     time.Time  // no message is logged before this time
	interval time.Duration
	more     int // occurrences since the last message
}

// Do calls log with the number of occurrences since the last message, if the interval has passed.
func (l *Log) Do(log func(more int)) {
	l.mu.Lock()
	now := time.Now()
	if now.Before(l.next) {
		l.more++
		l.mu.Unlock()
		return
	}
	if l.interval == 0 || now.Sub(l.next) > l.interval {
		l.interval = firstInterval
	} else {
		l.interval = min(2*l.interval, lastInterval)
	}
	more := l.more
	l.more, l.next = 0, now.Add(l.interval)
	l.mu.Unlock()
	log(more)
}
