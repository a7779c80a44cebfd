package manager

import (
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/controller"
)

// controllers tracks controllers created with the manager's options until they stop. Each one registers
// itself through its metrics.
type controllers struct {
	controller.MetricsProvider

	mu    sync.Mutex // guards known and its elements
	known []*reported
}

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

// views returns the controllers that have not stopped, oldest first.
func (c *controllers) views() []controller.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []controller.View
	for _, r := range c.known {
		all = append(all, r.view)
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
