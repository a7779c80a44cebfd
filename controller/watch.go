package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// For returns a source that requests a reconcile of an object after each of its events that passes all
// predicates.
func For[T object.Object](of Cached[T], predicates ...Predicate[T]) Source {
	return reconciledSource(watchedBy(of, predicates))
}

func reconciledSource(w *watched) Source {
	s := handleSource(w, addItself)
	s.role = roleReconciled
	return s
}

// Awaited returns a source that adds no requests, but must sync before the first reconcile. Use it for
// kinds that a reconciler reads without reacting to changes.
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

// Handle returns a source that calls handle for each event of a client or an informer that passes all
// predicates, one call at a time, in the server's order. If handle fails or panics, the informer reports
// the error and the source counts a failure, but the event is not delivered again. If you need retries, use
// [Map].
func Handle[T object.Object](of Cached[T], handle func(ctx context.Context, e sharedinformer.Event[T], in *Inbox) error, predicates ...Predicate[T]) Source {
	if handle == nil {
		panic(failure.Place(1) + ": the source's function is nil")
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

// handleSource is like [Handle], for heads.
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
					_ = in.note(err) // the informer reports the error
				}
			}()
			err = handle(ctx, e, in)
			return err
		}, in.Synced)
	})
}

// errUnreturned means that a handler panicked or called runtime.Goexit; the informer reports the
// details.
var errUnreturned = errors.New("its function panicked or called runtime.Goexit: see the status of the informer's handler")

// informerSource returns a source whose run function handles an informer's events.
func informerSource(w *watched, run func(ctx context.Context, in *Inbox) error) Source {
	i := w.informer
	if i == nil {
		s := SourceFunc(w.declared, func(context.Context, *Inbox) error { return errUncached })
		return s.misused(errUncached).misused(w.filter.misuse)
	}
	s := Source{
		name: i.Name, run: run, unsynced: i.Unsynced, syncedIn: i.HasSyncedIn, heldUp: i.HeldUp, sharded: shardedCacheOf(i),
		unserved: func(namespace string) bool { return notServedIn(i, namespace) || neverListed(i) },
	}
	return s.misused(w.filter.misuse)
}

// runHandler adds a handler to the informer and removes it when ctx is done. It calls synced once the
// handler has received all preexisting objects.
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

// errUncached means that the kind has no informer because it bypasses the cache.
var errUncached = errors.New("the source's informer is nil, perhaps because the kind bypasses the cache (factory.Options.DisableFor): get one from factory.Informer")

// servedAgain is how often awaitServed checks an informer that is not running.
const servedAgain = time.Second

// awaitServed waits until i has synced or has determined that the server does not serve the kind. Then
// it marks the source as synced.
func awaitServed(ctx context.Context, i *sharedinformer.Informer[object.Object], in *Inbox) {
	for ctx.Err() == nil {
		err := i.WaitUntil(ctx, func() bool { return i.HasSynced() || notServed(i) })
		if err == nil {
			if !i.HasSynced() {
				in.Synced()
			}
			return
		}
		select { // the informer has stopped or fails for another reason
		case <-time.After(servedAgain):
		case <-ctx.Done():
		}
	}
}

// neverListed reports whether i has no list of any namespace. The server may not serve the kind then, whatever the
// last failure was.
func neverListed(i *sharedinformer.Informer[object.Object]) bool {
	s := i.Status()
	return s.Reflector.RV == "" && !slices.ContainsFunc(s.Namespaces, func(r reflector.Status) bool { return r.RV != "" })
}

// notServed reports whether i's reflector last failed because the server does not serve the kind.
func notServed(i *sharedinformer.Informer[object.Object]) bool {
	return i.Status().Reflector.NotServed()
}

// notServedIn is like notServed, but for the reflector that reads the namespace.
func notServedIn(i *sharedinformer.Informer[object.Object], namespace string) bool {
	if s, watched := i.StatusIn(namespace); watched {
		return s.NotServed()
	}
	return notServed(i)
}

// causeOf returns the cause type corresponding to an event.
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
		if e.Moved {
			return Moved
		}
		return Deleted
	}
	return Resynced
}
