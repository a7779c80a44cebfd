package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// For returns a source that asks for a reconcile of each object of a client or an informer
// when something happens to it, if every predicate lets that pass.
func For[T object.Object](of Cached[T], predicates ...Predicate[T]) Source {
	return reconciledSource(watchedBy(of, predicates))
}

func reconciledSource(w *watched) Source {
	s := handleSource(w, addItself)
	s.role = roleReconciled
	return s
}

// Awaited returns a source that asks for nothing and is waited for all the same: of a
// kind that reconciles read, and whose changes lead to none.
func Awaited(of Watchable) Source { return handleSource(watchedOf(of), addNothing) }

func addItself(_ context.Context, e sharedinformer.Event[object.Head], in *Inbox) error {
	if !movedAway(e) {
		key := object.KeyOf(e.Object)
		at := in.subscription.source.sharded.placement(e.Object)
		at.existence = objectPresent
		if e.Type == sharedinformer.Delete {
			at.existence = objectGone
		}
		in.add(causeOf(e), key, Request{Key: key}, at)
	}
	return nil
}

func addNothing(context.Context, sharedinformer.Event[object.Head], *Inbox) error { return nil }

// Handle returns a source that calls a function for whatever happens to an
// object of a client or an informer and passes every predicate: one call at a time, in the
// order of the server. An error or a panic is reported by the informer and counts as a failure of
// the source, and the event is not told again; to retry is what Map is for.
func Handle[T object.Object](of Cached[T], handle func(ctx context.Context, e sharedinformer.Event[T], in *Inbox) error, predicates ...Predicate[T]) Source {
	if handle == nil {
		panic(failure.Place(1) + ": the function of a source is nil")
	}
	i := informerOf(of)
	return handleSource(watchedBy(of, predicates), func(ctx context.Context, e sharedinformer.Event[object.Head], in *Inbox) error {
		told, err := i.OpenEvent(e)
		if err != nil {
			return err
		}
		return handle(ctx, told, in)
	})
}

// handleSource is a source that is told of heads.
func handleSource(w *watched, handle func(ctx context.Context, e sharedinformer.Event[object.Head], in *Inbox) error) Source {
	return informerSource(w, func(ctx context.Context, in *Inbox) error {
		return runHandler(ctx, w.informer, in, func(_ context.Context, e sharedinformer.Event[object.Head]) error {
			otherwise := func() {
				if err := handle(ctx, e, in); err != nil {
					in.Failed(err)
				}
			}
			if ctx.Err() != nil || !w.filter.admits(in, e, otherwise) {
				return nil
			}
			err := errUnreturned
			defer func() {
				if err != nil {
					_ = in.note(err) // the informer reports it
				}
			}()
			err = handle(ctx, e, in)
			return err
		}, in.Synced)
	})
}

// errUnreturned: the informer, which knows more, reports a panic and a runtime.Goexit of a handler.
var errUnreturned = errors.New("its function panicked or called runtime.Goexit: the status of the informer's handler says which")

// informerSource is a source that run makes of the events of a kind.
func informerSource(w *watched, run func(ctx context.Context, in *Inbox) error) Source {
	i := w.informer
	if i == nil {
		s := SourceFunc(w.declared, func(context.Context, *Inbox) error { return errUncached })
		return s.misused(errUncached).misused(w.filter.misuse)
	}
	s := Source{name: i.Name, run: run, unsynced: i.Unsynced, syncedIn: i.HasSyncedIn, heldUp: i.HeldUp, sharded: shardedCacheOf(i)}
	return s.misused(w.filter.misuse)
}

// runHandler has the informer call a handler until ctx is done. synced is called when the
// handler has received the objects that were there.
func runHandler(ctx context.Context, i *sharedinformer.Informer[object.Object], in *Inbox, handler sharedinformer.HandlerFunc[object.Head], synced func()) error {
	registration := i.AddHeadHandler(handler, sharedinformer.HandlerOptions{
		Name:   fmt.Sprintf("controller %s: %s", in.core.name, in.subscription.source),
		Place:  in.subscription.place,
		Resync: jitter.Around(in.core.opts.Resync),
		OnSync: synced,
	})
	if in.subscription.source.optional {
		awaitServed(ctx, i, in)
	}
	<-ctx.Done()
	return registration.CloseAndWait(context.WithoutCancel(ctx))
}

// errUncached: an informer is needed, and the client of the kind has none.
var errUncached = errors.New("the source's informer is nil, as that of a client is whose kind bypasses the cache (factory.Options.DisableFor): ask factory.Informer for one")

// servedAgain is how often awaitServed looks at an informer that does not run.
const servedAgain = time.Second

// awaitServed waits until i is synced, or until it is known that the server does
// not serve its kind, and then says that the source need not be waited for.
func awaitServed(ctx context.Context, i *sharedinformer.Informer[object.Object], in *Inbox) {
	for ctx.Err() == nil {
		err := i.WaitUntil(ctx, func() bool { return i.HasSynced() || notServed(i) })
		if err == nil {
			if !i.HasSynced() {
				in.Synced()
			}
			return
		}
		select { // it has stopped, or fails with something else
		case <-time.After(servedAgain):
		case <-ctx.Done():
		}
	}
}

// notServed reports whether the last that i heard is that its kind is not served.
func notServed(i *sharedinformer.Informer[object.Object]) bool {
	return i.Status().Reflector.NotServed()
}

// causeOf names an event as a cause.
func causeOf(e sharedinformer.Event[object.Head]) CauseType {
	switch e.Type {
	case sharedinformer.Add:
		if e.Moved {
			return Moved
		}
		if e.Initial {
			return Initial
		}
		return Created
	case sharedinformer.Update:
		return Updated
	case sharedinformer.Delete:
		return Deleted
	}
	return Resynced
}
