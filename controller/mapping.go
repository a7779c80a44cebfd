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

// Map returns a source that calls requests for each event of a client or an informer that passes all
// predicates, and adds the requests it returns. For an update, it calls requests for both the old and
// the new object.
//
// If requests fails or panics, the error is reported, and the call is retried for that object with
// back-off until it succeeds. Calls never overlap. They may receive an outdated version of the object, or one
// that was deleted; such a version is given up after 20 failures if the function succeeds otherwise. While calls fail
// for an object, the source keeps its oldest unmapped version and the latest seven, and drops those in between. The
// objects are shared and must not be modified. The source does not sync while requests fails for every
// initial object, unless it fails because a kind is not served.
func Map[T object.Object](of Cached[T], requests func(ctx context.Context, o T) ([]Request, error), predicates ...Predicate[T]) Source {
	if requests == nil {
		panic(failure.Place(1) + ": the source's function is nil")
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

// anywhere wraps requests that have no placement.
func anywhere(reqs []Request, err error) ([]placedRequest, error) {
	all := make([]placedRequest, len(reqs))
	for n, req := range reqs {
		all[n].Request = req
	}
	return all, err
}

// mapSource is [Map] for heads.
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

// MapFunc is like [Map], for a function that needs only the object and cannot fail.
func MapFunc[T object.Object](of Cached[T], requests func(o T) []Request, predicates ...Predicate[T]) Source {
	if requests == nil {
		panic(failure.Place(1) + ": the source's function is nil")
	}
	return Map(of, func(_ context.Context, o T) ([]Request, error) { return requests(o), nil }, predicates...)
}

// MapByIndex is [MapFunc] for the most common case. It computes a value from the changed object (for an
// update, from both versions) and requests every object that the index lists under that value. For example,
// a change to a Secret reconciles the sites that refer to it:
//
//	bySecret := controller.AddIndex(sites, "secret", func(s *Site) []string { return []string{s.Spec.Secret} })
//	source := controller.MapByIndex(secrets, bySecret, func(s *corev1.Secret) string { return s.Name })
//
// The index contains objects of the reconciled kind. It spans all namespaces, so if names are unique
// only within a namespace, use keys as values:
//
//	source := controller.MapByIndex(secrets, byKey, func(s *corev1.Secret) object.Key { return object.KeyOf(s) })
//
// An object that is added to the index later is reconciled in response to its own event.
func MapByIndex[T, R object.Object, V comparable](of Cached[T], index *Index[R, V], value func(T) V, predicates ...Predicate[T]) Source {
	if index == nil || value == nil {
		panic(failure.Place(1) + ": the source's index or function is nil")
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

// mapping runs a map function and retries its failures.
type mapping struct {
	ctx      context.Context
	in       *Inbox
	requests func(context.Context, object.Head) ([]placedRequest, error)
	admits   func(in *Inbox, e sharedinformer.Event[object.Head], otherwise func()) bool
	retries  *workqueue.Queue[object.Key]

	mu       sync.Mutex // serializes calls to requests; guards the fields below
	unmapped map[object.Key]*unmapped
	existing int    // number of objects in unmapped that have not been deleted
	mapped   bool   // a call has succeeded, or has failed because a kind is not served
	calls    uint64 // number of calls that succeeded
	waiting  bool   // all initial objects failed; the source is synced once one is mapped, or none of them exists
}

// unmapped contains the states of an object that have not been mapped yet.
type unmapped struct {
	typ    CauseType   // the cause type of the last event
	states []state     // oldest first
	next   int         // index of the state to map next, in case the function calls runtime.Goexit
	last   object.Head // the object's state in the last event that the predicates admitted
	gone   bool        // the object was deleted
}

// state is a state of an object for which the function has failed, or has not been called.
type state struct {
	object   object.Head
	err      error  // of the last call
	failures int    // number of calls
	calls    uint64 // mapping.calls at the first failure
}

const (
	// maxStates limits the states kept per object while the function fails. Beyond that, the oldest state and
	// the newest ones are kept.
	maxStates = 8
	// maxFailures is the number of failures after which an outdated state is given up if the function works otherwise:
	// then the object's content is the reason.
	maxFailures = 20
	// maxUnmapped is the number of objects beyond which deleted ones are given up like that even if every call fails.
	maxUnmapped = 1000
)

// handle handles an event. It also maps an object that has moved to another process, because this one may still have
// the objects that it maps to, such as its former owner; other requests are dropped when a worker takes them.
func (m *mapping) handle(_ context.Context, e sharedinformer.Event[object.Head]) error {
	switch {
	case m.ctx.Err() != nil:
	case m.admits(m.in, e, func() { m.take(e) }):
		m.take(e)
	default:
		m.skip(e)
	}
	return nil
}

// skip notes a deletion that the predicates reject.
func (m *mapping) skip(e sharedinformer.Event[object.Head]) {
	if e.Type != sharedinformer.Delete {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.unmapped[object.KeyOf(e.Object)]; u != nil {
		m.setGone(u, true)
	}
}

// take maps an event's objects. If earlier states of the same object are left, it maps only the new ones.
func (m *mapping) take(e sharedinformer.Event[object.Head]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := object.KeyOf(e.Object)
	u := m.unmapped[key]
	waits := u != nil
	if !waits {
		u = &unmapped{gone: true} // so far, it is not counted as existing
	}
	u.typ, u.last = causeOf(e), e.Object
	come := []state{{object: e.Object}}
	if left := func(s state) bool { return s.object == e.Old }; e.Type == sharedinformer.Update && !slices.ContainsFunc(u.states, left) {
		come = []state{{object: e.Old}, {object: e.Object}}
	}
	u.states = append(u.states, come...)
	if more := len(u.states) - maxStates; more > 0 {
		u.states = slices.Delete(u.states, 1, 1+more)
	}
	gone := e.Type == sharedinformer.Delete
	if waits { // for a retry, which is queued
		m.setGone(u, gone)
		u.next = len(u.states) - len(come)
		_ = m.try(key, u, func(error) {})
		return
	}
	later := func(err error) {
		m.unmapped[key] = u
		m.setGone(u, gone)
		m.retries.AddWith(retry(err), key)
	}
	if err := m.try(key, u, later); err != nil {
		later(err)
	}
}

// setGone records whether an object in unmapped was deleted. The caller holds mu.
func (m *mapping) setGone(u *unmapped, gone bool) {
	switch {
	case u.gone && !gone:
		m.existing++
	case !u.gone && gone:
		m.existing--
	}
	u.gone = gone
	m.checkWaiting()
}

// checkWaiting marks the source as synced if none of the initial objects is left. The caller holds mu.
func (m *mapping) checkWaiting() {
	if m.waiting && m.existing == 0 {
		m.waiting = false
		m.in.Synced()
	}
}

// retry retries failed calls until ctx is done.
func (m *mapping) retry(tasks *sync.WaitGroup) {
	exited := true
	defer func() {
		if exited { // the function called runtime.Goexit
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
	u := m.unmapped[key]
	err := m.try(key, u, func(err error) { m.retries.AddWith(retry(err), key) })
	if err != nil {
		err = m.giveUp(u)
	}
	if err == nil {
		delete(m.unmapped, key)
		m.setGone(u, true)
	}
	return err
}

// giveUp drops outdated states for which the function has failed too often. It returns the error of a state that is
// left, if any. The caller holds mu.
func (m *mapping) giveUp(u *unmapped) error {
	for n := len(u.states) - 1; n >= 0; n-- {
		s := u.states[n]
		outdated := s.object != u.last || u.gone
		hopeless := m.calls > s.calls || meta.IsNoMatchError(s.err) || u.gone && len(m.unmapped) > maxUnmapped
		if outdated && s.failures >= maxFailures && hopeless {
			u.states = slices.Delete(u.states, n, n+1)
		}
	}
	if len(u.states) == 0 {
		return nil
	}
	return u.states[len(u.states)-1].err
}

// try maps u's states from u.next on, and returns the last error if any are left. If the function calls
// runtime.Goexit, exited is called. The caller holds mu.
func (m *mapping) try(key object.Key, u *unmapped, exited func(error)) error {
	for u.next < len(u.states) {
		n := u.next
		s := &u.states[n]
		u.next++
		failed := func(err error) {
			if s.failures++; s.failures == 1 {
				s.calls = m.calls
			}
			s.err = err
			m.in.Failed(err)
		}
		reqs, err := m.call(s.object, func(err error) {
			failed(err)
			exited(err)
		})
		m.note(err)
		if err != nil {
			failed(err)
			if !errors.Is(err, wire.ErrDamaged) { // decoding corrupted bytes again would not help
				continue
			}
		} else {
			m.calls++
		}
		for _, req := range reqs {
			m.in.add(u.typ, key, req.Request, req.placement)
		}
		u.states = slices.Delete(u.states, n, n+1)
		u.next = n
	}
	u.next = 0
	if len(u.states) == 0 {
		return nil
	}
	return u.states[len(u.states)-1].err
}

// call calls the function and converts a panic to an error.
func (m *mapping) call(o object.Head, exited func(error)) (reqs []placedRequest, err error) {
	guard := failure.Guard{In: "map function"}
	defer guard.End(&err, exited)
	reqs, err = m.requests(m.ctx, o)
	guard.Returned()
	return reqs, err
}

// note marks the function as working if err is nil or means that a kind is not served: until that kind
// exists, there is nothing to request. The caller holds mu.
func (m *mapping) note(err error) {
	if m.mapped || err != nil && !meta.IsNoMatchError(err) {
		return
	}
	m.mapped = true
	if m.waiting {
		m.waiting = false
		m.in.Synced()
	}
}

// synced is called when all initial objects have been passed to the function.
func (m *mapping) synced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = !m.mapped && m.existing > 0 && !m.in.subscription.source.optional
	if !m.waiting {
		m.in.Synced()
	}
}
