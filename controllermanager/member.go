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

// member is one controller of a run.
type member struct {
	Status
	run    manager.Runnable // nil unless it is to run
	events *events.Recorder // of what runs
}

// create calls the descriptor's New, with a client and a recorder of its own, and makes
// an error of a panic and of a runtime.Goexit.
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
			return c, errors.New("NewClient returned no client, and no error")
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
		err = fmt.Errorf("New returned a %T that is nil: return nil itself to decline", c.run)
	}
	if err == nil && m.share != nil {
		err = unshared(c.run)
	}
	return c, err
}

// unshared says why a controller works on everything where the processes share the work, nil
// if it does not. One that can never run is told so.
func unshared(run manager.Runnable) error {
	sharer, ok := run.(interface{ Share() shard.Share })
	if !ok || sharer.Share() != nil {
		return nil
	}
	if c, ok := run.(interface{ Err() error }); ok && c.Err() != nil {
		return c.Err()
	}
	return errors.New("it works on everything, and would do so in every process that shares the work: let it ask for what it reconciles with ClientOf, by a key for which Options.Shard gives a share, or add it to a controllermanager.Manager without Options.Shard")
}

// call runs the controller and makes an error of a panic and of a runtime.Goexit. Its
// events are sent meanwhile, and the last of them when it has returned.
func (c *member) call(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sent sync.WaitGroup
	defer sent.Wait()
	defer stop()
	sent.Go(func() { _ = c.events.Run(sending) }) // it returns nil: NewRegistry has checked the name, and what cannot be sent is counted and logged
	return failure.Apart("Run", func() error { return c.run.Run(ctx) })
}
