package manager

import (
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/controller"
)

// controllers are those that were made with the manager's options and have not
// ended. Each makes itself known to its metrics when it is made.
type controllers struct {
	controller.Metrics

	mu    sync.Mutex // guards known and what is in it
	known []*reported
}

// reported is one of them. It implements controller.Recorder.
type reported struct {
	controller.Recorder
	owner  *controllers
	status func() controller.Status
}

// Register implements controller.Metrics.
func (c *controllers) Register(name string, status func() controller.Status) controller.Recorder {
	r := &reported{Recorder: c.Metrics.Register(name, status), owner: c}
	r.note(status)
	return r
}

func (r *reported) note(status func() controller.Status) {
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	r.status = status
	if !slices.Contains(r.owner.known, r) {
		r.owner.known = append(r.owner.known, r)
	}
}

// Started implements controller.Recorder.
func (r *reported) Started(status func() controller.Status) {
	r.note(status)
	r.Recorder.Started(status)
}

// Stopped implements controller.Recorder.
func (r *reported) Stopped(last controller.Status) {
	r.owner.mu.Lock()
	r.owner.known = slices.DeleteFunc(r.owner.known, func(other *reported) bool { return other == r })
	r.status = nil
	r.owner.mu.Unlock()
	r.Recorder.Stopped(last)
}

// report returns how each of them is doing.
func (c *controllers) report() []controller.Status {
	c.mu.Lock()
	statuses := make([]func() controller.Status, 0, len(c.known))
	for _, r := range c.known {
		statuses = append(statuses, r.status)
	}
	c.mu.Unlock()
	var all []controller.Status
	for _, status := range statuses {
		all = append(all, status())
	}
	return all
}
