package controller

import (
	"errors"
	"slices"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/workqueue"
)

// Share returns the share of the work that is this controller's: what the informer holds
// that For was given. It is nil where the controller works on everything.
func (c *Controller) Share() shard.Share {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shareOf(c.sources)
}

func shareOf(sources []*subscription) shard.Share {
	for _, s := range sources {
		if s.source.role == reconciled && s.source.sharded != nil {
			return s.source.sharded.scope.Share
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
	share, h := shareOf(c.sources), s.source.sharded
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
		if of := own.source.sharded; own.source.role == reconciled && of != nil {
			if err := h.scope.Key.Follows(of.scope.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter enters the share for a request, and returns the work of its slot, nil if the controller
// works on everything. It is not entered if the request is not to be
// reconciled now: it belongs to another process, or the caches do not hold yet what came
// with its slot. It fails if the share or its key does, which may be a user's.
func (s *session) enter(req Request) (slot *slotWork, entered bool, err error) {
	c := s.controller
	c.mu.Lock()
	share, sources := shareOf(c.sources), c.sources
	if share != nil {
		sources = slices.Clone(sources)
	}
	c.mu.Unlock()
	if share == nil {
		return nil, true, nil
	}
	err = failure.Apart("the share", func() (err error) {
		slot, err = s.enterShare(req, share, sources)
		return err
	})
	return slot, err == nil && slot != nil, err
}

// leave ends the work of a slot.
func (s *session) leave(slot *slotWork) {
	if err := slot.Leave(); err != nil {
		report(s.controller.opts.Logger, "share", err)
	}
}

func (s *session) enterShare(req Request, share shard.Share, sources []*subscription) (*slotWork, error) {
	h := s.placement(req, sources)
	if !h.known { // it does not exist, or not here
		s.drop(req)
		return nil, nil
	}
	in, wait, err := s.waits.Enter(s.ctx, share, h.hash, func(hash uint64) bool {
		for _, sub := range sources {
			if of := sub.source.sharded; of != nil && !of.informer.Holds(hash) {
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
	w := &slotWork{Work: in, key: req.Key}
	for _, sub := range sources {
		if of := sub.source.sharded; of != nil && sub.source.role == reconciled && sub.source.cluster == req.Cluster {
			if _, has := of.find(req.Key); has {
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
		if of == nil || sub.source.role != reconciled || sub.source.cluster != req.Cluster {
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
	case !fixed && told.existence != gone: // it may have moved away, and a reconcile would take it for gone
		return placement{}
	}
	return told
}

// drop lets go of a request that is not ours. If it becomes ours, the informer tells of
// all that comes with its slot.
func (s *session) drop(req Request) {
	s.causes.take(req)
	s.queue.Forget(req)
	s.streaks.end(req)
	s.controller.count.elsewhere.Add(1)
}
