package manager

import (
	"context"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/failure"
)

// controllers tracks controllers until they stop. Those created with the manager's options register
// themselves through their metrics; others are tracked from when they are added.
type controllers struct {
	controller.MetricsProvider

	mu      sync.Mutex // guards the fields below and the elements of known
	known   []*reported
	added   []*controller.View // without the manager's options; pointers, because a View need not be comparable
	holders []*holder
}

// holder is a runnable that runs controllers, such as a controllermanager.Manager.
type holder interface {
	Controllers() []controller.View
}

// adopt tracks r if it is or runs controllers. It returns a run function that stops tracking a controller when it
// stops, and a function that undoes this.
func (c *controllers) adopt(r Runnable, run func(context.Context) error) (_ func(context.Context) error, undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := r.(holder); ok {
		held := &h
		c.holders = append(c.holders, held)
		return run, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.holders = slices.DeleteFunc(c.holders, func(other *holder) bool { return other == held })
		}
	}
	view, ok := r.(controller.View)
	if !ok || slices.ContainsFunc(c.known, func(k *reported) bool { return sameController(k.view, view) }) {
		return run, func() {}
	}
	added := &view
	c.added = append(c.added, added)
	drop := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.added = slices.DeleteFunc(c.added, func(other *controller.View) bool { return other == added })
	}
	return func(ctx context.Context) error {
		defer drop()
		return run(ctx)
	}, drop
}

// sameController reports whether two views are of the same controller. One may embed the other, and neither need be
// comparable. Names are unique in a manager.
func sameController(a, b controller.View) bool { return a.Name() == b.Name() }

// reported is a tracked controller. It implements controller.Metrics.
type reported struct {
	controller.Metrics
	owner *controllers
	view  controller.View
}

func (c *controllers) Register(view controller.View) controller.Metrics {
	r := &reported{Metrics: c.MetricsProvider.Register(view), owner: c}
	r.note(view)
	return r
}

func (r *reported) note(view controller.View) {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	r.view = view
	if !slices.Contains(r.owner.known, r) {
		r.owner.known = append(r.owner.known, r)
	}
}

func (r *reported) Started(view controller.View) {
	r.note(view)
	r.Metrics.Started(view)
}

func (r *reported) Stopped(last controller.Status) {
	r.owner.mu.Lock()
	r.owner.known = slices.DeleteFunc(r.owner.known, func(other *reported) bool { return other == r })
	r.view = nil
	r.owner.mu.Unlock()
	r.Metrics.Stopped(last)
}

// forget drops a controller that will never run.
func (c *controllers) forget(view controller.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = slices.DeleteFunc(c.known, func(r *reported) bool {
		if r.view != view {
			return false
		}
		if f, ok := r.Metrics.(interface{ Forget() }); ok {
			f.Forget()
		}
		return true
	})
}

// views returns the controllers that have not stopped: those with the manager's options, oldest first, and then
// others.
func (c *controllers) views() []controller.View {
	c.mu.Lock()
	var all []controller.View
	for _, r := range c.known {
		all = append(all, r.view)
	}
	for _, view := range c.added {
		all = append(all, *view)
	}
	holders := slices.Clone(c.holders)
	c.mu.Unlock()
	tracked := all
	for _, h := range holders {
		var of []controller.View
		if failure.Apart("Controllers", func() error { of = (*h).Controllers(); return nil }) != nil {
			continue // a user's holder may panic
		}
		for _, view := range of {
			if !slices.ContainsFunc(tracked, func(other controller.View) bool { return sameController(other, view) }) { // it may also have the manager's options
				all = append(all, view)
			}
		}
	}
	return all
}

// report returns the status of each controller.
func (c *controllers) report() []controller.Status {
	var all []controller.Status
	for _, view := range c.views() {
		all = append(all, view.Status())
	}
	return all
}
