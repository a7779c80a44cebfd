package sharedinformer

import (
	"sync"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// reportsPerSecond is how many failures of one handler, or of one index function, are reported in a
// second. A function that fails on one object often fails on all.
const reportsPerSecond = 10

// reportLimiter limits the rate of reported failures. It counts the others, and adds their number to the
// next that is reported.
type reportLimiter struct {
	mu     sync.Mutex // guards all below; nothing is called while it is held
	second time.Time  // when the second began in which the last was reported
	passed int        // in that second
	others int        // not reported since then
	last   *failure.Failure
}

// allow returns f if it is to be reported, with the number of those before it that were not, and nil if
// not. It leaves f itself alone, which the status may show already.
func (m *reportLimiter) allow(f *failure.Failure) *failure.Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.second) >= time.Second {
		m.second, m.passed = now, 0
	}
	if m.passed == reportsPerSecond {
		m.others++
		m.last = f
		return nil
	}
	m.passed++
	return m.with(f, m.others)
}

// with returns f with the number of those before it, which are told thereby. It is called under mu.
func (m *reportLimiter) with(f *failure.Failure, others int) *failure.Failure {
	m.others, m.last = 0, nil
	if others == 0 {
		return f
	}
	told := *f
	told.Others = others
	return &told
}

// flush returns the last failure that was not reported, with the number of those before it; nil if all were.
func (m *reportLimiter) flush() *failure.Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return nil
	}
	return m.with(m.last, m.others-1)
}

// reportLimiters has a reportLimiter for each index or handler whose function has failed in the last seconds, by name.
type reportLimiters struct {
	mu sync.Mutex // guards all; nothing but a reportLimiter is called while it is held
	of map[string]*reportLimiter
}

// allow calls allow of the limiter of that name.
func (m *reportLimiters) allow(name string, f *failure.Failure) *failure.Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = make(map[string]*reportLimiter)
	}
	if m.of[name] == nil {
		m.of[name] = new(reportLimiter)
	}
	return m.of[name].allow(f)
}

// flush calls flush of each.
func (m *reportLimiters) flush() (all []*failure.Failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, of := range m.of {
		if f := of.flush(); f != nil {
			all = append(all, f)
		}
		if time.Since(of.second) >= time.Second {
			delete(m.of, name)
		}
	}
	return all
}
