package manager

import (
	"sync"

	"github.com/millrace-dev/millrace/controller"
)

// controllers are those that were made with the manager's options. Each makes
// itself known to its metrics when it is made.
type controllers struct {
	controller.Metrics

	mu       sync.Mutex // guards statuses
	statuses []func() controller.Status
}

// Register implements controller.Metrics.
func (c *controllers) Register(name string, status func() controller.Status) controller.Recorder {
	c.mu.Lock()
	c.statuses = append(c.statuses, status)
	c.mu.Unlock()
	return c.Metrics.Register(name, status)
}

// report returns how each of them is doing.
func (c *controllers) report() []controller.Status {
	c.mu.Lock()
	statuses := c.statuses
	c.mu.Unlock()
	var all []controller.Status
	for _, status := range statuses {
		all = append(all, status())
	}
	return all
}
