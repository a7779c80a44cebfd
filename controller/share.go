package controller

import (
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/workqueue"
)

// enterShare enters the share for a request, and returns the work of its slot, nil if the controller
// works on everything. entered is false if the request must not be reconciled now: it belongs
// to another process, or the caches do not have all objects of its slot yet. It fails if the
// share or its key does, which may be a user's.
func (s *session) enterShare(req Request) (slot *slotWork, entered bool, err error) {
	sources := s.sources.all()
	share := shareOf(sources)
	if share == nil {
		return nil, true, nil
	}
	var w *slotWork // not slot, which would be on the heap for controllers without a share too
	err = failure.Apart("the share", func() (err error) {
		w, err = s.enterSlot(req, share, sources)
		return err
	})
	return w, err == nil && w != nil, err
}

// leaveSlot ends the work of a slot.
func (s *session) leaveSlot(slot *slotWork) {
	if err := slot.Leave(); err != nil {
		report(s.opts.Logger, "share", err)
	}
}

func (s *session) enterSlot(req Request, share shard.Share, sources []*subscription) (*slotWork, error) {
	h := s.placement(req, sources)
	if !h.known { // it does not exist, or not here
		s.elsewhere(req)
		return nil, nil
	}
	in, wait, err := s.waits.Enter(s.ctx, share, h.hash, func(hash uint64) bool {
		for _, sub := range sources {
			if of := sub.source.sharded; of != nil && !of.informer.Holds(hash) {
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
		s.elsewhere(req)
		return nil, nil
	}
	w := &slotWork{Work: in, key: req.Key}
	for _, sub := range sources {
		if of := sub.source.sharded; of != nil && sub.source.role == roleReconciled && sub.source.cluster == req.Cluster {
			if _, has := of.informer.Heads().Get(req.Key); has { // no key is called, whose panic would leave the slot entered
				w.had = append(w.had, of.informer)
			}
		}
	}
	return w, nil
}

// placement returns where req belongs: where the cache has what it names, and where that was if it
// is gone. Where a write can change that, it is gone only if it was deleted. Of two kinds that
// have one of the name, the one counts of which a cause told.
func (s *session) placement(req Request, sources []*subscription) placement {
	told, fixed := s.causes.placement(req), true
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
	case !fixed && told.existence != objectGone: // it may have moved away, and a reconcile would take it for gone
		return placement{}
	}
	return told
}

// elsewhere drops a request that is another process's. If it becomes ours, the informer tells of
// all that comes with its slot.
func (s *session) elsewhere(req Request) {
	s.causes.take(req)
	s.slotLost(req)
}

// slotLost is elsewhere for a request whose slot was lost while it was reconciled. The reconcile has
// taken its causes; those that came since are of its next one.
func (s *session) slotLost(req Request) {
	s.forget(req)
	s.count.elsewhere.Add(1)
}
