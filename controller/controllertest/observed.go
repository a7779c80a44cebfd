package controllertest

import (
	"testing/synctest"

	"github.com/millrace-dev/millrace/controller"
)

// observable is what Env looks at of a controller, which says more than its log: that
// may have been left out.
type observable interface {
	Name() string
	Status() controller.Status
	Ready() error
}

// observed is a controller that was started, and what the test's log says of it.
type observed struct {
	observable
	errors  uint64
	waiting bool
}

// settle waits until everything is quiet, and writes to the test's log which
// reconciles have failed since the last time and which controllers wait for a source.
func (e *Env) settle() {
	e.Helper()
	synctest.Wait()
	for _, o := range e.observed {
		status := o.Status()
		if status.Errors > o.errors {
			e.Logf("controller %s: reconciles that failed: %d, the last: %v", o.Name(), status.Errors-o.errors, status.Failure)
			o.errors = status.Errors
		}
		if status.State == controller.Waiting && !o.waiting {
			e.Log(o.Ready())
		}
		o.waiting = status.State == controller.Waiting
	}
}
