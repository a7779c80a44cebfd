package controller

import (
	"context"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// Map returns a source that asks, when something happens to an object of an
// informer and every predicate lets it pass, for the requests that a function
// makes of the object; of an update, of the object before and after it.
//
// Where the function fails or panics, that is reported and it is called again for
// the object after a back-off, until it succeeds. It is called one call at a
// time, and may be called for a state that is no longer the newest. Its objects
// are shared and must not be changed.
func Map[T object.Object](i *sharedinformer.Informer[T], requests func(ctx context.Context, o T) ([]Request, error), predicates ...Predicate[T]) Source {
	s := informerSource(i, nil)
	if i == nil {
		return s
	}
	s.run = func(ctx context.Context, in *Inbox) error {
		m := &mapping[T]{
			ctx: ctx, in: in, requests: requests, predicates: predicates,
			unmapped: make(map[object.Key]*unmapped[T]),
			retries:  workqueue.New(workqueue.Options[object.Key]{Name: in.session.controller.name + ": " + in.subscription.source.String()}),
		}
		defer m.retries.ShutDown()
		var retrying sync.WaitGroup
		defer retrying.Wait()
		retrying.Go(m.retry)
		return informerSource(i, func(context.Context, *Inbox) sharedinformer.HandlerFunc[T] { return m.handle }).run(ctx, in)
	}
	return s
}

// MapFunc is Map for a function that needs nothing but the object and cannot fail.
func MapFunc[T object.Object](i *sharedinformer.Informer[T], requests func(o T) []Request, predicates ...Predicate[T]) Source {
	return Map(i, func(_ context.Context, o T) ([]Request, error) { return requests(o), nil }, predicates...)
}

// mapping makes requests of objects, by a function that may fail.
type mapping[T object.Object] struct {
	ctx        context.Context
	in         *Inbox
	requests   func(context.Context, T) ([]Request, error)
	predicates []Predicate[T]
	retries    *workqueue.Queue[object.Key]

	mu       sync.Mutex // orders calls of requests, and guards unmapped
	unmapped map[object.Key]*unmapped[T]
}

// unmapped is what is known of one object and was not mapped yet.
type unmapped[T object.Object] struct {
	typ    CauseType // of the last event
	states []T       // the oldest first
}

// maxStates is how many states of one object are kept while the function fails.
// Of more, the oldest and the newest are.
const maxStates = 8

// handle is told of every event.
func (m *mapping[T]) handle(_ context.Context, e sharedinformer.Event[T]) error {
	if m.ctx.Err() != nil || !admits(m.in, m.predicates, e) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := object.KeyOf(e.Object)
	u := m.unmapped[key]
	waits := u != nil
	if !waits {
		u = &unmapped[T]{}
		if e.Type == sharedinformer.Update {
			u.states = append(u.states, e.Old)
		}
	}
	u.typ = causeOf(e)
	u.states = append(u.states, e.Object)
	if len(u.states) > maxStates {
		u.states = slices.Delete(u.states, 1, 2)
	}
	if !waits && !m.try(key, u) {
		m.unmapped[key] = u
		m.retries.AddRateLimited(key)
	}
	return nil
}

// retry tries again what has failed, until ctx is done.
func (m *mapping[T]) retry() {
	for key := range m.retries.Work(m.ctx) {
		if m.again(key) {
			m.retries.Forget(key)
		} else {
			m.retries.AddRateLimited(key)
		}
	}
}

func (m *mapping[T]) again(key object.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	done := m.try(key, m.unmapped[key])
	if done {
		delete(m.unmapped, key)
	}
	return done
}

// try maps the states of u that are left, and reports whether none is. It is
// called under mu.
func (m *mapping[T]) try(key object.Key, u *unmapped[T]) bool {
	for len(u.states) > 0 {
		reqs, err := m.call(u.states[0])
		if err != nil {
			m.in.Failed(err)
			return false
		}
		m.in.Add(u.typ, key, reqs...)
		u.states = u.states[1:]
	}
	return true
}

// call turns a panic of the function into an error.
func (m *mapping[T]) call(o T) (reqs []Request, err error) {
	defer failure.Recover("map function", &err)
	return m.requests(m.ctx, o)
}
