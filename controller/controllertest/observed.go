package controllertest

import (
	"errors"
	"fmt"
	"testing/synctest"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/manager"
)

// observed are the controllers of what was started, and what the test's log says of
// them. Their own log may have been left out.
type observed struct {
	look func() []controller.Status
	told map[string]told // by the name of the controller
}

// told is what was known of a controller when everything was quiet.
type told struct {
	errors  uint64
	waiting bool
}

// observe looks at what is to be started, if it is or has a controller.
func observe(r any) *observed {
	o := &observed{told: map[string]told{}}
	switch r := r.(type) {
	case interface{ Status() controller.Status }:
		o.look = func() []controller.Status { return []controller.Status{r.Status()} }
	case *manager.Manager:
		o.look = func() []controller.Status { return r.Report().Controllers }
	default:
		return nil
	}
	for _, s := range o.look() {
		o.told[s.Name] = told{errors: s.Errors}
	}
	return o
}

// settle waits until everything is quiet, and writes to the test's log which
// reconciles have failed since the last time and which controllers wait for a source.
func (e *Env) settle() {
	e.Helper()
	synctest.Wait()
	for _, o := range e.observed {
		for _, s := range o.look() {
			before, waiting := o.told[s.Name], s.State == controller.Waiting
			if s.Errors > before.errors {
				e.Logf("controller %s: reconciles that failed: %d, the last: %v", s.Name, s.Errors-before.errors, s.Failure)
			}
			if waiting && !before.waiting {
				e.Logf("controller %s: %v", s.Name, waitsFor(s))
			}
			o.told[s.Name] = told{s.Errors, waiting}
		}
	}
}

// waitsFor says which sources a controller waits for, and why.
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
