package sharedinformer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// indexFailed reports index functions that panicked. The caller must hold no locks.
func (i *core) indexFailed(failures []*indexer.IndexError) {
	for _, e := range failures {
		f := i.completeFailure(&failure.Failure{Phase: failure.PhaseIndex, Key: e.Key, Err: e})
		if told := i.reports.allow(e.Index, f); told != nil {
			i.report(context.Background(), nil, told)
		}
	}
}

// reportSuppressed reports failures that exceeded the rate limit, one per function.
func (i *core) reportSuppressed() {
	for _, f := range i.reports.flush() {
		i.report(context.Background(), nil, f)
	}
	for _, d := range *i.handlers.Load() {
		if f := d.reports.flush(); f != nil {
			i.report(context.Background(), nil, f)
		}
	}
}

// reportSuppressed reports the failures of a closed handler that exceeded the rate limit.
func (d *delivery) reportSuppressed(ctx context.Context) {
	if f := d.reports.flush(); f != nil {
		d.informer.report(ctx, d, f)
	}
}

// completeFailure fills in a failure that occurred outside the reflector, and stores it in the status. The failure
// may already have the attempts and the start of the failures before it.
func (i *core) completeFailure(f *failure.Failure) *failure.Failure {
	now := time.Now()
	f.Resource, f.Last = i.Name(), now
	if f.Attempts++; f.Attempts == 1 {
		f.Since = now
	}
	i.failure.Store(f)
	return f
}

// reportNow completes and reports a failure.
func (i *core) reportNow(f *failure.Failure) {
	i.report(context.Background(), nil, i.completeFailure(f))
}

// report logs a failure that occurred outside the reflector, and passes it to the error handler. If d is
// not nil, the caller is d's goroutine.
func (i *core) report(ctx context.Context, d *delivery, f *failure.Failure) {
	attrs := []any{"resource", f.Resource, "phase", string(f.Phase), "key", object.FormatKey(f.Key), "handler", f.Handler, "err", f.Err}
	if f.Others > 0 {
		attrs = append(attrs, "others", f.Others)
	}
	if p, ok := errors.AsType[*failure.PanicError](f.Err); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	} else if e, ok := errors.AsType[*indexer.IndexError](f.Err); ok && e.Stack != nil {
		attrs = append(attrs, "stack", string(e.Stack))
	}
	i.logger.Error("informer failure", attrs...)
	i.recordFailure(d, f)
	if i.verdict(ctx, d, f) != failure.Stop {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current != nil {
		i.current.fail(f)
	}
}

// verdict calls the error handler and returns its verdict, or Retry if the handler fails.
func (i *core) verdict(ctx context.Context, d *delivery, f *failure.Failure) failure.Verdict {
	v := failure.Retry
	if i.onError == nil {
		return v
	}
	if err := i.callHook("OnError", d, func() { v = i.onError(ctx, f) }); err != nil {
		i.logger.Error("informer hook", append([]any{"resource", i.Name(), "err", err}, failure.Stack(err)...)...)
	}
	return v
}

// reportsPerSecond is the maximum number of failures reported per second for one handler or index function. A
// function that fails on one object often fails on all of them.
const reportsPerSecond = 10

// reportLimiter limits the rate of reported failures. It counts suppressed failures and adds their number to
// the next report.
type reportLimiter struct {
	mu     sync.Mutex // guards the fields below; never held while calling other code
	second time.Time  // start of the current second
	passed int        // number reported in that second
	others int        // suppressed since then
	last   *failure.Failure
}

// allow returns f, with the number of failures suppressed before it, or nil if f is suppressed too. It does
// not modify f, because the status may already contain it.
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

// with returns f with the number of suppressed failures, and marks them as reported. The caller must hold mu.
func (m *reportLimiter) with(f *failure.Failure, others int) *failure.Failure {
	m.others, m.last = 0, nil
	if others == 0 {
		return f
	}
	told := *f
	told.Others = others
	return &told
}

// flush returns the last suppressed failure with the number of failures suppressed before it, or nil if there
// is none.
func (m *reportLimiter) flush() *failure.Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return nil
	}
	return m.with(m.last, m.others-1)
}

// reportLimiters contains a reportLimiter for each index or handler that failed in the last few seconds, by
// name.
type reportLimiters struct {
	mu sync.Mutex // guards the field of; only reportLimiters are called while holding it
	of map[string]*reportLimiter
}

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
