package factory

import (
	"context"

	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// informer is what the factory needs of an informer of whatever type.
type informer interface {
	Start(context.Context) (wait func() error, err error)
	WaitForSync(context.Context) error
	WaitUntil(ctx context.Context, reached func() bool) error
	HasSynced() bool
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
	optional bool // all users say so
	users    int
	misuse   error              // by one of them
	cancel   context.CancelFunc // nil before it is started
	begun    chan struct{}      // closed when the last run has begun
	ended    chan struct{}      // closed when the last run has ended

	known  context.Context // done when the last user has given it back
	forget context.CancelFunc
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
	if e.optional {
		err := e.informer.WaitUntil(ctx, func() bool { return e.informer.HasSynced() || e.absent() })
		if err != nil || !e.informer.HasSynced() {
			return err
		}
	}
	return e.informer.WaitForSync(ctx)
}

// absent reports whether the server last said that it does not serve the kind.
func (e entry) absent() bool { return e.informer.Status().Reflector.NotServed() }
