package top

import "time"

// rates converts counters to rates per second.
type rates map[string]sample

// sample is a counter's value at a point in time, with the rate at which it got there.
type sample struct {
	at    time.Time
	count uint64
	rate  float64
	known bool
}

// of returns a counter's rate since the last call, and whether it is known. A counter that has decreased is
// treated as new.
func (r rates) of(name string, at time.Time, count uint64) (float64, bool) {
	last, seen := r[name]
	passed := at.Sub(last.at)
	switch {
	case seen && passed <= 0:
		return last.rate, last.known
	case !seen || count < last.count:
		r[name] = sample{at: at, count: count}
		return 0, false
	}
	rate := float64(count-last.count) / passed.Seconds()
	r[name] = sample{at, count, rate, true}
	return rate, true
}

// forget drops counters that have not been seen recently.
func (r rates) forget(before time.Time) {
	for name, s := range r {
		if s.at.Before(before) {
			delete(r, name)
		}
	}
}
