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
	sources uint64 // failures of all sources
}

func toldOf(s controller.Status) told {
	t := told{errors: s.Errors, panics: s.Panics}
	for _, source := range s.Sources {
		t.sources += source.Failures
	}
	return t
}

// observe observes an argument of Start if it is or contains a controller.
func (e *Env) observe(r any) {
	o := &observed{told: map[string]told{}, running: func() []string { return nil }}
	switch r := r.(type) {
	case *manager.Manager:
		o.look = func() []controller.Status { return r.Report().Controllers }
	case interface{ Controllers() []controller.View }: // a controllermanager.Manager
		o.views(r.Controllers)
	case controller.View:
		o.views(func() []controller.View { return []controller.View{r} })
	case interface{ Status() controller.Status }:
		o.look = func() []controller.Status { return []controller.Status{r.Status()} }
	default:
		return
	}
	for _, s := range o.look() {
		o.told[s.Name] = toldOf(s)
	}
	e.quiet <- struct{}{}
	e.observed = append(e.observed, o)
	<-e.quiet
}

// views makes o observe controllers.
func (o *observed) views(of func() []controller.View) {
	o.look = func() (all []controller.Status) {
		for _, c := range of() {
			all = append(all, c.Status())
		}
		return all
	}
	o.running = func() (keys []string) {
		for _, c := range of() {
			keys = append(keys, runningIn(c)...)
		}
		return keys
	}
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
	before, now := o.told[s.Name], toldOf(s)
	now.waiting = s.State == controller.Waiting
	for _, source := range s.Sources {
		if now.sources == before.sources || source.Failure == nil {
			continue
		}
		if p, ok := errors.AsType[*failure.PanicError](source.Failure); ok && !e.allowPanics {
			e.Errorf("controller %s: %s: %v\n%s", s.Name, source.Name, source.Failure, p.Stack)
		} else {
			e.Logf("controller %s: %s: %v", s.Name, source.Name, source.Failure)
		}
	}
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
