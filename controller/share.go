package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// holding is what the informer of a source holds, where that is a share.
type holding struct {
	of    any // the informer
	scope shard.Scope
	holds func(hash uint64) bool                   // all that is in its slot
	find  func(object.Key) (hash uint64, has bool) // what has a name
}

// holdingOf returns what an informer holds, nil where that is everything.
func holdingOf(i *sharedinformer.Informer[object.Object]) *holding {
	if i == nil || i.Scope().Everything() {
		return nil
	}
	scope := i.Scope()
	return &holding{of: i, scope: scope, holds: i.Holds, find: func(key object.Key) (uint64, bool) {
		head, has := i.Heads().Get(key)
		if !has {
			return 0, false
		}
		return scope.Key.Hash(head), true
	}}
}

// home is where a request belongs: the hash of what it names, if that is known.
type home struct {
	hash  uint64
	known bool
	fate  fate
}

// fate is what the last event of a request's own object said of it.
type fate uint8

const (
	untold fate = iota // there was no such event
	there
	deleted
)

// home is that of a request for o, or for what o is with because its key follows.
func (h *holding) home(o object.Head) home {
	if h == nil {
		return home{}
	}
	return home{hash: h.scope.Key.Hash(o), known: true}
}

// placed is a request, and where it belongs.
type placed struct {
	Request
	home
}

// ownerHome is that of a request for an owner of o. The key puts an object where the owner is
// that controls it, and where others are only if it goes by what they have in common.
func (h *holding) ownerHome(o object.Head, owner metav1.OwnerReference) home {
	if h == nil {
		return home{}
	}
	switch key := h.scope.Key.String(); {
	case key == shard.ByOwner().String(): // each is where its UID is; see shard.Key.Follows
		return home{hash: shard.Hash(string(owner.UID)), known: true}
	case key == shard.ByNamespace().String(), controls(owner):
		return h.home(o)
	}
	return home{}
}

// movedAway reports whether an event tells that an object is another process's now, and
// not that it is gone.
func movedAway(e sharedinformer.Event[object.Head]) bool {
	return e.Moved && e.Type == sharedinformer.Delete
}

// Share returns the share of the work that is this controller's: what the informer holds
// that For was given. It is nil where the controller works on everything.
func (c *Controller) Share() shard.Share {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shareOf(c.sources)
}

func shareOf(sources []*subscription) shard.Share {
	for _, s := range sources {
		if s.source.role == reconciled && s.source.holding != nil {
			return s.source.holding.scope.Share
		}
	}
	return nil
}

// misuse says why a source can never work beside those that the controller has. It is
// called under mu.
func (c *Controller) misuse(s *subscription) error {
	if err := s.source.Err(); err != nil {
		return err
	}
	share, h := shareOf(c.sources), s.source.holding
	if h != nil && h.scope.Err() != nil {
		return h.scope.Err()
	}
	switch {
	case (shard.Scope{Share: share}).Err() != nil: // the other source is told so
		return nil
	case s.source.role == other && (h == nil || share == nil), h == nil && share == nil:
		return nil
	case h == nil:
		return errors.New("its informer holds everything, and that of the kind to reconcile a share: give it the same one (sharedinformer.Options.Shard)")
	case h.scope.Share != share:
		return errors.New("its informer does not hold the same share as that of the kind to reconcile: give both the same one (sharedinformer.Options.Shard)")
	case s.source.role != owned:
		return nil
	}
	for _, own := range c.sources {
		if of := own.source.holding; own.source.role == reconciled && of != nil && !h.scope.Key.Follows(of.scope.Key) {
			return fmt.Errorf("its objects are shared by %s and their owners by %s, so that one process would have the owner and another what it owns: share owners by %s and what they own by %s, or both by %s",
				h.scope.Key, of.scope.Key, shard.ByUID(), shard.ByOwner(), shard.ByNamespace())
		}
	}
	return nil
}

// enter enters the share for a request. It returns no context where the request is not to
// be reconciled now: it belongs to another process, or the caches do not hold yet what came
// with its slot. It fails where the share or its key does, which may be a user's.
func (s *session) enter(req Request) (working context.Context, leave func(), err error) {
	returned := false
	defer func() {
		// A key that ends the goroutine says so by a panic, behind which nobody sees err.
		if _, exited := errors.AsType[*failure.GoexitError](err); exited && !returned {
			s.unentered(req, err)
		}
	}()
	guard := failure.Guard{In: "the share"}
	defer guard.End(&err, func(err error) { s.unentered(req, err) })
	working, leave, err = s.take(req)
	guard.Returned()
	returned = true
	return working, leave, err
}

// take is enter for a share that does as it should.
func (s *session) take(req Request) (working context.Context, leave func(), err error) {
	c := s.controller
	c.mu.Lock()
	share, sources := shareOf(c.sources), c.sources
	if share != nil {
		sources = slices.Clone(sources)
	}
	c.mu.Unlock()
	if share == nil {
		return s.ctx, func() {}, nil
	}
	h := s.home(req, sources)
	if !h.known { // it does not exist, or not here
		s.drop(req)
		return nil, nil, nil
	}
	working, left, err := share.Enter(s.ctx, h.hash)
	switch {
	case errors.Is(err, shard.ErrNotOurs):
		if wait, has := s.waits.Refused(share, h.hash); has {
			s.queue.AddWith(workqueue.AddOptions{After: wait, Priority: s.causes.priority(req)}, req)
		} else {
			s.drop(req)
		}
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case working == nil || left == nil:
		return nil, nil, fmt.Errorf("the share (%T) says that a slot is ours, and returns no context or no leave", share)
	}
	leave = func() { s.leave(left) }
	token, _ := shard.TokenOf(working)
	for _, sub := range sources {
		if of := sub.source.holding; of != nil && !of.holds(h.hash) {
			leave()
			c.count.held.Add(1)
			s.queue.AddWith(workqueue.AddOptions{After: s.waits.Next(token), Priority: s.causes.priority(req)}, req)
			return nil, nil, nil
		}
	}
	return withWork(working, &work{share: share, token: token, hash: h.hash, key: req.Key, had: having(req, sources)}), leave, nil
}

// home returns where req belongs: where the cache has what it names, and where that was if it
// is gone. Where a write can change that, it is gone only if it was deleted. Of two kinds that
// have one of the name, the one counts of which a cause told.
func (s *session) home(req Request, sources []*subscription) home {
	told, fixed := s.causes.home(req), true
	var cached home
	for _, sub := range sources {
		of := sub.source.holding
		if of == nil || sub.source.role != reconciled || sub.source.cluster != req.Cluster {
			continue
		}
		if hash, has := of.find(req.Key); has && (!cached.known || hash == told.hash) {
			cached = home{hash: hash, known: true}
		}
		fixed = fixed && of.scope.Key.Fixed()
	}
	switch {
	case cached.known:
		return cached
	case !fixed && told.fate != deleted: // it may have moved away, and a reconcile would take it for gone
		return home{}
	}
	return told
}

// leave calls the leave of a share, which must not take the worker along.
func (s *session) leave(left func()) {
	var err error
	guard := failure.Guard{In: "the leave of the share"}
	defer func() {
		if err != nil {
			report(s.controller.opts.Logger, "share", err)
		}
	}()
	defer guard.End(&err, func(exited error) { err = exited })
	left()
	guard.Returned()
}

// unentered settles a request whose share failed, as if the reconciler had.
func (s *session) unentered(req Request, err error) {
	a := &attempt{
		Context: s.ctx, controller: s.controller, request: req, id: rand.Uint64(),
		number: s.streaks.next(req), reasons: s.causes.take(req),
	}
	began := time.Now()
	s.taken(a, began)
	s.controller.count.active.Add(1)
	s.settle(a, Result{}, err, time.Since(began))
}

// drop lets go of a request that is not ours. If it becomes ours, the informer tells of
// all that comes with its slot.
func (s *session) drop(req Request) {
	s.causes.take(req)
	s.queue.Forget(req)
	s.streaks.end(req)
	s.controller.count.elsewhere.Add(1)
}
