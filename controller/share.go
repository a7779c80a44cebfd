package controller

import (
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/workqueue"
)

// enterShare enters a request's slot. slot is nil if the controller handles all objects. entered is
// false if the request must not be reconciled now, because it belongs to another process or the caches do
// not contain all of the slot's objects yet. It fails if the share or its key function fails; both may be
// user code.
func (s *session) enterShare(req Request) (slot *slotWork, entered bool, err error) {
	sources, placed := s.sources.of(req.Cluster)
	if !placed {
		s.elsewhere(req, s.causes.placement(req))
		return nil, false, nil
	}
	share := shareOf(sources)
	if share == nil {
		return nil, true, nil
	}
	var w *slotWork // slot itself would escape to the heap even without a share
	err = failure.Apart("the share", func() (err error) {
		w, err = s.enterSlot(req, share, sources)
		return err
	})
	return w, err == nil && w != nil, err
}

func (s *session) leaveSlot(slot *slotWork) {
	if err := slot.Leave(); err != nil {
		report(s.opts.Logger, "share", err)
	}
}

func (s *session) enterSlot(req Request, share shard.Share, sources []*subscription) (*slotWork, error) {
	told := s.causes.placement(req)
	h := s.placement(req, told, sources)
	if !h.known { // the object does not exist or belongs to another process
		s.elsewhere(req, told)
		return nil, nil
	}
	in, wait, err := s.waits.Enter(s.ctx, share, h.hash, func(hash uint64) bool {
		for _, sub := range sources {
			if of := sub.source.sharded; of != nil && !of.informer.HoldsIn(hash, req.Namespace) && !(sub.source.optional && notServedIn(of.informer, req.Namespace)) {
				s.count.held.Add(1)
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
		s.elsewhere(req, told)
		return nil, nil
	}
	w := &slotWork{Work: in, key: req.Key}
	for _, sub := range sources {
		if of := sub.source.sharded; of != nil && sub.source.role == roleReconciled && sub.source.cluster == req.Cluster {
			if _, has := of.informer.Heads().Get(req.Key); has { // Heads never calls user code, which could panic and leave the slot entered
				w.had = append(w.had, of.informer)
			}
		}
	}
	return w, nil
}

// placement returns the placement of req: the cached object's placement, or the one that an event told if the
// object is gone. If a write can change placements, an object is considered gone only after a deletion
// event. If objects of two kinds have the same key, the kind that caused the request takes precedence.
func (s *session) placement(req Request, told placement, sources []*subscription) placement {
	fixed := true
	var cached placement
	for _, sub := range sources {
		of := sub.source.sharded
		if of == nil || sub.source.role != roleReconciled || sub.source.cluster != req.Cluster {
			continue
		}
		if hash, has := of.find(req.Key); has && (!cached.known || hash == told.hash) {
			cached = placement{hash: hash, known: true}
		}
		fixed = fixed && of.scope.Key.Fixed()
	}
	switch {
	case cached.known:
		return cached
	case !fixed && told.existence != objectGone: // the object may have moved to another process, and a reconcile would treat it as deleted
		return placement{}
	}
	return told
}

// elsewhere drops a request that belongs to another process, judged by its told placement. If this process acquires
// the slot later, the informer delivers all objects in it.
func (s *session) elsewhere(req Request, told placement) {
	s.causes.drop(req, told)
	s.slotLost(req)
}

// slotLost drops a request whose slot was lost during its reconcile. Its causes were taken when that
// reconcile started; any newer ones belong to the next reconcile.
func (s *session) slotLost(req Request) {
	s.forget(req)
	s.count.elsewhere.Add(1)
}
