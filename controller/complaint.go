package controller

import (
	"sync"
	"time"
)

// How long a trouble that goes on is kept quiet about after it was told of: at
// first, and at most.
const (
	firstQuiet = 10 * time.Second
	lastQuiet  = 10 * time.Minute
)

// complaint tells of a trouble that comes again and again: at once, and then at
// intervals that double. When it has not come for the length of the last interval,
// it is a new one.
type complaint struct {
	mu    sync.Mutex // guards all below; nothing is called while it is held
	next  time.Time  // not before
	quiet time.Duration
	more  int // not told of
}

// say calls tell with how often the trouble came since it was told of last, unless
// it is too early.
func (c *complaint) say(tell func(more int)) {
	c.mu.Lock()
	now := time.Now()
	if now.Before(c.next) {
		c.more++
		c.mu.Unlock()
		return
	}
	if c.quiet == 0 || now.Sub(c.next) > c.quiet {
		c.quiet = firstQuiet
	} else {
		c.quiet = min(2*c.quiet, lastQuiet)
	}
	more := c.more
	c.more, c.next = 0, now.Add(c.quiet)
	c.mu.Unlock()
	tell(more)
}
