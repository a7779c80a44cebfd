package controllertest

import (
	"errors"
	"fmt"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/manager"
)

// observed is the set of controllers in an argument of Start. Their state is written to the test's log,
// since their own loggers may discard everything.
type observed struct {
	look    func() []controller.Status
	running func() []string // requests being reconciled, if known
	told    map[string]told // by controller name
}

// told is a controller's state when everything was last quiet.
type told struct {
	errors  uint64
	panics  uint64
	waiting bool
}

// observe observes an argument of Start if it is or contains a controller.
func (e *Env) observe(r any) {
	o := &observed{told: map[string]told{}, running: func() []string { return nil }}
	switch r := r.(type) {
	case *manager.Manager:
		o.look = func() []controller.Status { return r.Report().Controllers }
	case controller.View:
		o.look = func() []controller.Status { return []controller.Status{r.Status()} }
		o.running = func() []string { return runningIn(r) }
	case interface{ Status() controller.Status }:
		o.look = func() []controller.Status { return []controller.Status{r.Status()} }
	default:
		return
	}
	for _, s := range o.look() {
		o.told[s.Name] = told{errors: s.Errors, panics: s.Panics}
	}
	e.quiet <- struct{}{}
	e.observed = append(e.observed, o)
	<-e.quiet
}

// settle waits until everything is quiet. It then logs the reconciles that have failed since the last time
// and the controllers that are waiting for a source. It may be called concurrently, including from a
// controller's goroutines: calls are serialized.
func (e *Env) settle() {
	e.Helper()
	e.quiet <- struct{}{} // synctest permits only one waiter at a time
	defer func() { <-e.quiet }()
	e.pace.rest()
	for _, o := range e.observed {
		for _, s := range o.look() {
			e.tell(o, s)
		}
	}
	if e.pace.stopped() {
		e.FailNow()
	}
}

// tell logs what has changed in a controller's state.
func (e *Env) tell(o *observed, s controller.Status) {
	e.Helper()
	before, now := o.told[s.Name], told{s.Errors, s.Panics, s.State == controller.Waiting}
	if s.Errors > before.errors {
		e.Logf("controller %s: failed reconciles: %d, the last: %v", s.Name, s.Errors-before.errors, s.Failure)
	}
	if s.Panics > before.panics && !e.allowPanics {
		e.Errorf("controller %s: panicked reconciles: %d%s", s.Name, s.Panics-before.panics, stackOf(s.Failure))
	}
	if now.waiting && !before.waiting {
		e.Logf("controller %s: %v", s.Name, waitsFor(s))
	}
	o.told[s.Name] = now
}

// stackOf returns the stack of a panic on separate lines, or "" if the last failure was not a panic.
func stackOf(f *controller.Failure) string {
	p, ok := errors.AsType[*failure.PanicError](f)
	if f == nil || !ok {
		return ""
	}
	return fmt.Sprintf(", the last: %v\n%s", f, p.Stack)
}

// waitsFor describes the sources that a controller is waiting for, and why.
func waitsFor(s controller.Status) error {
	var why []error
	for _, source := range s.Sources {
		switch {
		case source.Synced:
		case source.Waiting != nil:
			why = append(why, source.Waiting)
		default:
			why = append(why, errors.New(source.Name))
		}
	}
	return fmt.Errorf("%w for %w", controller.ErrWaiting, errors.Join(why...))
}
