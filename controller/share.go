package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// holding is what the informer of a source holds, where that is a share.
type holding struct {
	informer *sharedinformer.Informer[object.Object]
	scope    shard.Scope
}

// holdingOf returns what an informer holds, nil where that is everything.
func holdingOf(i *sharedinformer.Informer[object.Object]) *holding {
	if i == nil || i.Scope().Everything() {
		return nil
	}
	return &holding{i, i.Scope()}
}

// find returns the hash of the cached object of a key.
func (h *holding) find(key object.Key) (hash uint64, has bool) {
	head, has := h.informer.Heads().Get(key)
	if !has {
		return 0, false
	}
	return h.scope.Key.Hash(head), true
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

// ownerHome is that of a request for an owner of o.
func (h *holding) ownerHome(o object.Head, owner metav1.OwnerReference) (at home) {
	if h != nil {
		at.hash, at.known = h.scope.Key.OwnerHash(o, owner)
	}
	return at
}

// placed is a request, and where it belongs.
type placed struct {
	Request
	home
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
		if of := own.source.holding; own.source.role == reconciled && of != nil {
			if err := h.scope.Key.Follows(of.scope.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter enters the share for a request. It returns no context where the request is not to be
// reconciled now: it belongs to another process, or the caches do not hold yet what came
// with its slot. It fails where the share or its key does, which may be a user's.
func (s *session) enter(req Request) (working context.Context, leave func(), err error) {
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
	var w *work
	err = failure.Apart("the share", func() (err error) {
		w, err = s.enterShare(req, share, sources)
		return err
	})
	if err != nil || w == nil {
		return nil, nil, err
	}
	return withWork(w.Context, w), func() {
		if err := w.Leave(); err != nil {
			report(c.opts.Logger, "share", err)
		}
	}, nil
}

func (s *session) enterShare(req Request, share shard.Share, sources []*subscription) (*work, error) {
	h := s.home(req, sources)
	if !h.known { // it does not exist, or not here
		s.drop(req)
		return nil, nil
	}
	in, wait, err := s.waits.Enter(s.ctx, share, h.hash, func(hash uint64) bool {
		for _, sub := range sources {
			if of := sub.source.holding; of != nil && !of.informer.Holds(hash) {
				s.controller.count.held.Add(1)
				return false
			}
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case wait > 0:
		s.queue.AddWith(workqueue.AddOptions{After: wait, Priority: s.causes.priority(req)}, req)
		return nil, nil
	case in == nil:
		s.drop(req)
		return nil, nil
	}
	w := &work{Work: in, key: req.Key}
	for _, sub := range sources {
		if of := sub.source.holding; of != nil && sub.source.role == reconciled && sub.source.cluster == req.Cluster {
			if _, has := of.find(req.Key); has {
				w.had = append(w.had, of.informer)
			}
		}
	}
	return w, nil
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

// work is what a reconcile of a share has in hand. Its context has it, so that a read of a cache
// never takes for gone what another process has.
type work struct {
	*sharding.Work
	key object.Key
	had []*sharedinformer.Informer[object.Object] // of what is reconciled, that had it when the work began
}

type workKey struct{}

func withWork(ctx context.Context, w *work) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

// workOf returns what withWork put into ctx, nil if nothing.
func workOf(ctx context.Context) *work {
	w, _ := ctx.Value(workKey{}).(*work)
	return w
}

// lacks is sharding.Work.Lacks for an object that an informer does not have. If the object was
// there when the work began, and its key may change, such as a label, it may have moved, and
// nobody can tell that from a deletion.
func (w *work) lacks(i *sharedinformer.Informer[object.Object], key object.Key) error {
	if err := w.Lacks(i.Holds); err != nil {
		return err
	}
	if !i.Scope().Key.Fixed() && key == w.key && slices.Contains(w.had, i) {
		return shard.ErrMoved
	}
	return nil
}
