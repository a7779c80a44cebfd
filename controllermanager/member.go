package controllermanager

import (
	"context"
	"sync"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/manager"
)

// member is one controller of a run.
type member struct {
	Status
	run    manager.Runnable   // nil unless it is to run
	events *controller.Events // of what runs
}

// create calls the descriptor's New and makes an error of a panic.
func create(d Descriptor, c *Context) (run manager.Runnable, err error) {
	defer failure.Recover("New", &err)
	return d.New(c)
}

// call runs the controller and makes an error of a panic. Its events are sent
// meanwhile, and the last of them when it has returned.
func (c *member) call(ctx context.Context) (err error) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sent sync.WaitGroup
	defer sent.Wait()
	defer stop()
	sent.Go(func() { _ = c.events.Run(sending) }) // it returns nil: what cannot be sent is counted and logged
	defer failure.Recover("Run", &err)
	return c.run.Run(ctx)
}
