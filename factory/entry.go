package factory

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// informer is what the factory needs of an informer of whatever type.
type informer interface {
	Start(context.Context) (wait func() error, err error)
	WaitForSync(context.Context) error
	WaitUntil(ctx context.Context, reached func() bool) error
	HasSynced() bool
	Unsynced() error
	Status() sharedinformer.Status
	Name() string
	Namespaces() []string
	SetNamespaces([]string) error
	View() sharedinformer.View
}

// entry is one informer and its life.
type entry struct {
	id       identity
	number   int // of those that were asked for
	informer informer
	keep     wire.Fields
	store    sharedinformer.Store
	users    []*user            // in the order in which they came; never changed in place
	cancel   context.CancelFunc // nil before it is started
	begun    chan struct{}      // closed when the last run has begun
	ended    chan struct{}      // closed when the last run has ended

	known  context.Context // done when the last user has given it back
	forget context.CancelFunc
}

// user is one call that asked for an informer, until it gives it back.
type user struct {
	optional bool  // it can do without the kind
	misuse   error // what it asked for and cannot have
}

// optional reports whether all users can do without the kind.
func (e entry) optional() bool {
	return !slices.ContainsFunc(e.users, func(u *user) bool { return !u.optional })
}

// misuse returns what the users asked for and cannot have.
func (e entry) misuse() error {
	var errs []error
	for _, u := range e.users {
		errs = append(errs, u.misuse)
	}
	return errors.Join(errs...)
}

// waitForSync waits for the run that Start asked for, not for the one before. The
// wait ends when the last user gives the informer back.
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
		}
	}
	if e.optional() {
		heard := func() bool { return e.informer.Unsynced() == nil } // in this run
		err := e.informer.WaitUntil(ctx, func() bool { return heard() || e.absent() })
		if err != nil || !heard() {
			return err
		}
	}
	return e.informer.WaitForSync(ctx)
}

// absent reports whether the server last said, in this run, that it does not serve the kind.
func (e entry) absent() bool {
	s := e.informer.Status().Reflector
	return s.NotServed() && s.State != reflector.Stopped
}
