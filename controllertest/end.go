package controllertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/controller"
)

// endLimit is the bubble time within which the arguments of Start must return.
const endLimit = 24 * time.Hour

// end stops the arguments of Start and waits for them to return. It reports those that do not, because the
// synctest panic that follows only shows stacks and aborts the other tests.
func (e *Env) end() {
	e.Helper()
	e.over.Store(true)
	e.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Factory.Wait()
		e.runs.Wait()
	}()
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case <-ended:
		e.settle()
	case <-limit.C:
		e.Errorf("still running %v after the context was canceled: %s: each must return when its context is canceled", endLimit, strings.Join(e.living(), "; "))
	}
}

// mustLive fails the test if the Env is used after the test body has returned.
func (e *Env) mustLive(call string) {
	e.Helper()
	if e.over.Load() {
		e.Fatalf("controllertest: %s after the test body has returned: the server and the bubble's clock have stopped", call)
	}
}

// note records that r is running. Call ended once r has returned.
func (e *Env) note(r any) (ended func()) {
	name := fmt.Sprintf("%T", r)
	count := func(n int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.running[name] += n; e.running[name] == 0 {
			delete(e.running, name)
		}
	}
	count(1)
	return func() { count(-1) }
}

// living describes everything that is still running.
func (e *Env) living() (all []string) {
	e.mu.Lock()
	all = slices.Sorted(maps.Keys(e.running))
	e.mu.Unlock()
	for _, o := range e.observed {
		for _, s := range o.look() {
			if s.Active > 0 {
				all = append(all, fmt.Sprintf("controller %s, whose reconciles have not returned: %d%s", s.Name, s.Active, o.named()))
			}
		}
	}
	if all == nil {
		all = []string{"a handler of an informer"}
	}
	return all
}

// named returns the requests being reconciled, if known.
func (o *observed) named() string {
	keys := o.running()
	if len(keys) == 0 {
		return ""
	}
	return " (" + strings.Join(keys, ", ") + ")"
}

// runningIn returns the keys of up to shownKeys requests that a controller is reconciling.
func runningIn(c controller.View) (keys []string) {
	for _, held := range c.Contents(shownKeys).Running {
		keys = append(keys, held.Key.String())
	}
	return keys
}
