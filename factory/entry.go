package factory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// informer is the factory's view of an informer of any object type.
type informer interface {
	Start(context.Context) (wait func() error, err error)
	WaitForSync(context.Context) error
	WaitUntil(ctx context.Context, reached func() bool) error
	HasSynced() bool
	Unsynced() error
	Status() sharedinformer.Status
	Name() string
	Namespaces() []string
	View() sharedinformer.View
}

// entry is an informer with its users and its current run.
type entry struct {
	id       identity
	number   int // position in the order in which informers were first requested
	informer informer
	keep     wire.Fields
	store    sharedinformer.Store
	users    []*user            // in request order; never modified in place
	cancel   context.CancelFunc // nil until the informer is started
	begun    chan struct{}      // closed when the latest run has started
	ended    chan struct{}      // closed when the latest run has ended

	known  context.Context // done once the last user has released the informer
	forget context.CancelFunc
}

// user is a caller that has requested an informer and not released it yet.
type user struct {
	optional bool  // the user can work without the kind
	misuse   error // why the request cannot be satisfied
}

// optional reports whether all users can work without the kind.
func (e entry) optional() bool {
	return !slices.ContainsFunc(e.users, func(u *user) bool { return !u.optional })
}

// misuse returns the errors in the users' requests.
func (e entry) misuse() error {
	var errs []error
	for _, u := range e.users {
		errs = append(errs, u.misuse)
	}
	return errors.Join(errs...)
}

// waitForSync waits until the run requested by Start has synced; an earlier run does not suffice. It stops
// waiting when the last user releases the informer.
func (e entry) waitForSync(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.known, cancel)()
	err := e.synced(ctx)
	if e.known.Err() != nil {
		return nil
	}
	return err
}

func (e entry) synced(ctx context.Context) error {
	if e.begun != nil {
		select {
		case <-e.begun:
		case <-ctx.Done():
			select {
			case <-e.begun:
			default:
				return fmt.Errorf("%w: %s: its run has not begun, perhaps because the previous one has not ended: %w", sharedinformer.ErrNotSynced, e.informer.Name(), context.Cause(ctx))
			}
		}
	}
	if e.optional() {
		heard := func() bool { return e.informer.Unsynced() == nil } // reports whether the server has responded in this run
		err := e.informer.WaitUntil(ctx, func() bool { return heard() || e.absent() })
		if err != nil || !heard() {
			return err
		}
	}
	return e.informer.WaitForSync(ctx)
}

// absent reports whether, according to the server's last response in this run, it does not serve the kind.
func (e entry) absent() bool {
	s := e.informer.Status().Reflector
	return s.NotServed() && s.State != reflector.Stopped
}
