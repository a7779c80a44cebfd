package controller

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
	"github.com/millrace-dev/millrace/workqueue"
)

// Map returns a source that asks, when something happens to an object of a client or an
// informer and every predicate lets it pass, for the requests that a function
// makes of the object; of an update, of the object before and after it.
//
// Where the function fails or panics, that is reported and it is called again for
// the object after a back-off, until it succeeds. It is called one call at a
// time, and may be called for a state that is no longer the newest. Its objects
// are shared and must not be changed. As long as it fails for every object that
// was there when the source began, the source is not synced, unless the reason is
// that a kind is not served.
func Map[T object.Object](of Cached[T], requests func(ctx context.Context, o T) ([]Request, error), predicates ...Predicate[T]) Source {
	if requests == nil {
		panic(failure.Place(1) + ": the function of a source is nil")
	}
	i := informerOf(of)
	return mapSource(watchedBy(of, predicates), func(ctx context.Context, head object.Head) ([]placedRequest, error) {
		o, err := i.Open(head)
		if err != nil {
			return nil, err
		}
		return anywhere(requests(ctx, o))
	})
}

// anywhere returns requests that may belong to any process.
func anywhere(reqs []Request, err error) ([]placedRequest, error) {
	all := make([]placedRequest, len(reqs))
	for n, req := range reqs {
		all[n].Request = req
	}
	return all, err
}

// mapSource is a source that maps heads.
func mapSource(w *watched, requests func(ctx context.Context, o object.Head) ([]placedRequest, error)) Source {
	return informerSource(w, func(ctx context.Context, in *Inbox) error {
		m := &mapping{
			ctx: ctx, in: in, requests: requests, admits: w.filter.admits,
			unmapped: make(map[object.Key]*unmapped),
			retries:  workqueue.New(workqueue.Options[object.Key]{Name: in.core.name + ": " + in.subscription.source.String()}),
		}
		defer m.retries.ShutDown()
		var retrying sync.WaitGroup
		defer retrying.Wait()
		retrying.Go(func() { m.retry(&retrying) })
		return runHandler(ctx, w.informer, in, m.handle, m.synced)
	})
}

// MapFunc is Map for a function that needs nothing but the object and cannot fail.
func MapFunc[T object.Object](of Cached[T], requests func(o T) []Request, predicates ...Predicate[T]) Source {
	if requests == nil {
		panic(failure.Place(1) + ": the function of a source is nil")
	}
	return Map(of, func(_ context.Context, o T) ([]Request, error) { return requests(o), nil }, predicates...)
}

// MapByIndex is MapFunc for the commonest function: it asks for every object that an index has under the
// value that value returns for the changed object; of an update, for the object before and after it.
// So a change of a Secret reconciles the sites that name it:
//
//	bySecret := controller.AddIndex(sites, "secret", func(s *Site) []string { return []string{s.Spec.Secret} })
//	source := controller.MapByIndex(secrets, bySecret, func(s *corev1.Secret) string { return s.Name })
//
// The index is of the kind that is reconciled. It ignores namespaces: where names are unique only in
// one, use keys as values (object.KeyOf). An object that comes into the index later needs no request of this source, since
// its own event leads to one.
func MapByIndex[T, R object.Object, V comparable](of Cached[T], index *Index[R, V], value func(T) V, predicates ...Predicate[T]) Source {
	if index == nil || value == nil {
		panic(failure.Place(1) + ": the index or the function of a source is nil")
	}
	return Map(of, func(_ context.Context, o T) ([]Request, error) { return requestsFor(index.Heads(value(o))), nil }, predicates...)
}

// requestsFor returns a request for each object.
func requestsFor(objects iter.Seq[object.Head]) (reqs []Request) {
	for o := range objects {
		reqs = append(reqs, Request{Key: object.KeyOf(o)})
	}
	return reqs
}

// mapping makes requests of objects, by a function that may fail.
type mapping struct {
	ctx      context.Context
	in       *Inbox
	requests func(context.Context, object.Head) ([]placedRequest, error)
	admits   func(in *Inbox, e sharedinformer.Event[object.Head], otherwise func()) bool
	retries  *workqueue.Queue[object.Key]

	mu       sync.Mutex // orders calls of requests, and guards unmapped
	unmapped map[object.Key]*unmapped
	mapped   bool // one has been, or its kind is not served
	waiting  bool // to be synced, until one is mapped
}

// unmapped is what is known of one object and was not mapped yet.
type unmapped struct {
	typ    CauseType     // of the last event
	states []object.Head // the oldest first
}

// maxStates is how many states of one object are kept while the function fails.
// Of more, the oldest and the newest are.
const maxStates = 8

// handle is told of every event.
func (m *mapping) handle(_ context.Context, e sharedinformer.Event[object.Head]) error {
	if m.ctx.Err() == nil && !movedAway(e) && m.admits(m.in, e, func() { m.take(e) }) {
		m.take(e)
	}
	return nil
}

// take maps the objects of an event, or sees to it that they are mapped later.
func (m *mapping) take(e sharedinformer.Event[object.Head]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := object.KeyOf(e.Object)
	u := m.unmapped[key]
	waits := u != nil
	if !waits {
		u = &unmapped{}
		if e.Type == sharedinformer.Update {
			u.states = append(u.states, e.Old)
		}
	}
	u.typ = causeOf(e)
	u.states = append(u.states, e.Object)
	if len(u.states) > maxStates {
		u.states = slices.Delete(u.states, 1, 2)
	}
	if waits {
		return
	}
	later := func(err error) {
		m.unmapped[key] = u
		m.retries.AddWith(retry(err), key)
	}
	if err := m.try(key, u, later); err != nil {
		later(err)
	}
}

// retry tries again what has failed, until ctx is done.
func (m *mapping) retry(tasks *sync.WaitGroup) {
	exited := true
	defer func() {
		if exited { // by the function
			tasks.Go(func() { m.retry(tasks) })
		}
	}()
	for key := range m.retries.Work(m.ctx) {
		if err := m.again(key); err != nil {
			m.retries.AddWith(retry(err), key)
		} else {
			m.retries.Forget(key)
		}
	}
	exited = false
}

func (m *mapping) again(key object.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.try(key, m.unmapped[key], func(err error) { m.retries.AddWith(retry(err), key) })
	if err == nil {
		delete(m.unmapped, key)
	}
	return err
}

// try maps the states of u that are left, to the first that fails. Where the
// function ends the goroutine, exited is called. It is called under mu.
func (m *mapping) try(key object.Key, u *unmapped, exited func(error)) error {
	for len(u.states) > 0 {
		reqs, err := m.call(u.states[0], func(err error) {
			m.in.Failed(err)
			exited(err)
		})
		m.note(err)
		if err != nil {
			m.in.Failed(err)
			if !errors.Is(err, wire.ErrDamaged) { // which it stays
				return err
			}
		}
		for _, req := range reqs {
			m.in.add(u.typ, key, req.Request, req.placement)
		}
		u.states = u.states[1:]
	}
	return nil
}

// call turns a panic of the function into an error.
func (m *mapping) call(o object.Head, exited func(error)) (reqs []placedRequest, err error) {
	guard := failure.Guard{In: "map function"}
	defer guard.End(&err, exited)
	reqs, err = m.requests(m.ctx, o)
	guard.Returned()
	return reqs, err
}

// note says that the function works, if it does: where a kind is missing, nothing
// is to be asked for before it is there. It is called under mu.
func (m *mapping) note(err error) {
	if m.mapped || err != nil && !meta.IsNoMatchError(err) {
		return
	}
	m.mapped = true
	if m.waiting {
		m.in.Synced()
	}
}

// synced is called when the function has been called for all that was there.
func (m *mapping) synced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = !m.mapped && len(m.unmapped) > 0 && !m.in.subscription.source.optional
	if !m.waiting {
		m.in.Synced()
	}
}
