package controller

import (
	"errors"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/shard"
)

// sourceList holds a controller's sources.
type sourceList struct {
	changed chan struct{} // holds a token if the sources should be checked again

	mu       sync.Mutex          // guards the fields below; no other code is called while it is held
	list     []*subscription     // copy-on-write, because all returns it
	unplaced map[string]struct{} // clusters whose sharded source was removed and not replaced
}

func (l *sourceList) add(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
	if s.source.role == roleReconciled {
		delete(l.unplaced, s.source.cluster)
	}
}

func (l *sourceList) remove(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.list, s) {
		return
	}
	l.list = slices.DeleteFunc(slices.Clone(l.list), func(other *subscription) bool { return other == s })
	if s.source.sharded == nil || s.source.role != roleReconciled || slices.ContainsFunc(l.list, func(other *subscription) bool {
		return other.source.role == roleReconciled && other.source.cluster == s.source.cluster
	}) {
		return
	}
	if l.unplaced == nil {
		l.unplaced = map[string]struct{}{}
	}
	l.unplaced[s.source.cluster] = struct{}{}
}

// of returns the current sources, for a request in a cluster. placed is false if the cluster's sharded source was
// removed: then nobody knows which slot the request belongs to. The caller must not modify the slice.
func (l *sourceList) of(cluster string) (sources []*subscription, placed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, unplaced := l.unplaced[cluster]
	return l.list, !unplaced
}

// begin returns the current sources for a new run, whose queue has no requests from removed ones.
func (l *sourceList) begin() []*subscription {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unplaced = nil
	return l.list
}

// all returns the current sources. The caller must not modify the slice.
func (l *sourceList) all() []*subscription {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// unsynced reports whether any source has not synced.
func (l *sourceList) unsynced() bool {
	return slices.ContainsFunc(l.all(), func(s *subscription) bool { return !s.synced.Load() })
}

// waiting returns the reasons for waiting, one for each source.
func (l *sourceList) waiting() (why []error) {
	for _, s := range l.all() {
		if err := s.waiting(); err != nil {
			why = append(why, err)
		}
	}
	return why
}

// poke makes a waiting controller check its sources again.
func (l *sourceList) poke() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func shareOf(sources []*subscription) shard.Share {
	for _, s := range sources {
		if s.source.role == roleReconciled && s.source.sharded != nil {
			return s.source.sharded.scope.Share
		}
	}
	return nil
}

// misuse returns an error if s cannot work alongside the other sources.
func (l *sourceList) misuse(s *subscription) error {
	if err := s.source.Err(); err != nil {
		return err
	}
	others, h := l.all(), s.source.sharded
	share := shareOf(others)
	if h != nil && h.scope.Err() != nil {
		return h.scope.Err()
	}
	switch {
	case (shard.Scope{Share: share}).Err() != nil: // the error is reported for the other source
		return nil
	case s.source.role == roleOther && (h == nil || share == nil), h == nil && share == nil:
		return nil
	case h == nil:
		return errors.New("its informer is unsharded but the reconciled kind's is sharded: give both the same Shard (sharedinformer.Options.Shard)")
	case h.scope.Share != share:
		return errors.New("its informer and the reconciled kind's have different shares: give both the same Shard (sharedinformer.Options.Shard)")
	case s.source.role != roleOwned:
		return nil
	}
	for _, own := range others {
		if of := own.source.sharded; own.source.role == roleReconciled && of != nil {
			if err := h.scope.Key.Follows(of.scope.Key); err != nil {
				return err
			}
		}
	}
	return nil
}
