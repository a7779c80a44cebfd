// Package patience limits how long a question to user code is waited for.
package patience

import (
	"sync/atomic"
	"time"
)

// A Call asks user code that may block. The zero value is ready to use. It is safe for concurrent use.
type Call struct {
	late atomic.Int32 // calls that are still running, although nobody waits for them
}

// Within calls f in a goroutine of its own and reports whether f returned within d. If it did not, f goes on, so
// anything that it sets must not be read. Until it returns, Within returns false at once, without calling f: a
// question that is asked again and again leaves no more goroutines behind.
func (c *Call) Within(d time.Duration, f func()) bool {
	if c.late.Load() > 0 {
		return false
	}
	returned, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer func() {
			select {
			case returned <- struct{}{}:
			case <-left:
				c.late.Add(-1)
			}
		}()
		f()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-returned:
		return true
	case <-timer.C:
		c.late.Add(1)
		close(left)
		return false
	}
}
