package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/shard"
)

// member is a controller in a single run.
type member struct {
	Status
	run    manager.Runnable // nil if the controller is not run
	events *events.Recorder // nil if run is nil
}

// create calls the descriptor's New with a client and a recorder for the controller, and converts a
// panic or runtime.Goexit to an error.
func (r *round) create(d Descriptor, served Resources) (c member, err error) {
	m := r.m
	client := m.factory.Client()
	if m.opts.NewClient != nil {
		err := failure.Apart("NewClient", func() (err error) {
			client, err = m.opts.NewClient(d.Name)
			return err
		})
		switch {
		case err != nil:
			return c, err
		case client == nil:
			return c, errors.New("NewClient returned neither a client nor an error")
		}
		r.clients = append(r.clients, client)
	}
	c.events = events.New(client, d.Name, events.Options{Logger: m.opts.Logger})
	of := &Context{name: d.Name, client: client, factory: m.factory, served: served, started: r.started, opts: &m.opts, events: c.events}
	err = failure.Apart("New", func() (err error) {
		c.run, err = d.New(of)
		return err
	})
	if v := reflect.ValueOf(c.run); err == nil && v.Kind() == reflect.Pointer && v.IsNil() {
		err = fmt.Errorf("New returned a nil %T: return an untyped nil to decline", c.run)
	}
	if err == nil && m.share != nil {
		err = unshared(c.run)
	}
	return c, err
}

// unshared returns an error if a controller handles all objects although the processes share the work. If
// the controller is unusable anyway, it returns the reason for that instead.
func unshared(run manager.Runnable) error {
	sharer, ok := run.(interface{ Share() shard.Share })
	if !ok || sharer.Share() != nil {
		return nil
	}
	if c, ok := run.(interface{ Err() error }); ok && c.Err() != nil {
		return c.Err()
	}
	return errors.New("it handles all objects, in every process that shares the work: get the client for its kind from ClientOf, with a key for which Options.Shard returns a share, or add the controller to a controllermanager.Manager without Options.Shard")
}

// call runs the controller and converts a panic or runtime.Goexit to an error. It sends the controller's
// events while the controller is running, and any remaining ones after it has returned.
func (c *member) call(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sent sync.WaitGroup
	defer sent.Wait()
	defer stop()
	sent.Go(func() { _ = c.events.Run(sending) }) // always returns nil: NewRegistry has checked the name, and events that cannot be sent are counted and logged
	return failure.Apart("Run", func() error { return c.run.Run(ctx) })
}
