package sharedinformer

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// process applies what the reflector queues until ctx is done, which is when
// the reflector has ended, and nothing is left in the queue.
func (i *Informer[T]) process(ctx context.Context) {
	var reuse []deltafifo.Delta[T]
	for {
		batch, err := i.queue.PopBatch(ctx, reuse)
		if err != nil {
			break
		}
		i.handleDeltas(batch)
		reuse = batch.Deltas
	}
	for {
		batch, ok := i.queue.TryPopBatch()
		if !ok {
			return
		}
		i.handleDeltas(batch)
	}
}

// handleDeltas applies one batch to the cache, in one write, and appends what
// it changed to the log, in one append. It is the informer's own step, called
// by Run's goroutine alone.
func (i *Informer[T]) handleDeltas(batch deltafifo.Batch[T]) {
	changes := applier[T]{initial: !i.synced.Load()}
	changes.expect(batch)
	var left []*original[T]
	i.join.Lock()
	failures := i.cache.Write(func(w indexer.Writer[T]) {
		for n := range batch.Deltas {
			changes.apply(w, &batch.Deltas[n])
		}
		if batch.RV != "" {
			w.SetRV(batch.RV)
		}
		if i.mutations != nil { // before anybody sees the objects
			left = i.mutations.learn(changes.events)
		}
	})
	i.publish(&changes)
	i.join.Unlock()
	i.indexFailed(failures)
	if i.mutations != nil {
		i.mutations.checkLeft(left)
	}
	i.changed.broadcast()
}

// publish appends what a batch changed to the log and wakes the handlers. It
// is called under join.
func (i *Informer[T]) publish(changes *applier[T]) {
	if len(changes.events) > 0 {
		applied := time.Now()
		for n := range changes.events {
			if e := &changes.events[n]; !e.Received.IsZero() {
				e.Applied = applied.Sub(e.Received)
			}
		}
		i.append(&segment[T]{events: changes.events})
	}
	if changes.replaced && !i.synced.Load() {
		i.synced.Store(true)
		i.append(&segment[T]{synced: true})
	}
	if !changes.resync {
		return
	}
	targets := make(map[*Registration[T]]struct{})
	for _, r := range *i.handlers.Load() {
		// Resyncs must not pile up before a handler that takes longer than
		// their period: changes would come ever later. A box merges them.
		if r.resyncDue.Swap(false) && r.HasSynced() && (r.box != nil || r.resyncing.CompareAndSwap(false, true)) {
			targets[r] = struct{}{}
		}
	}
	if len(targets) > 0 {
		objects, _ := i.cache.Snapshot()
		i.append(&segment[T]{resync: &resync[T]{objects: objects, targets: targets}})
	}
}

// append links s to the log, hands it to those who do not walk the log, and
// wakes everybody.
func (i *Informer[T]) append(s *segment[T]) {
	i.log.append(s)
	for _, r := range *i.handlers.Load() {
		if r.box != nil {
			r.box.offer(s, r)
		}
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// applier turns deltas, which say what the server said, into events, which say
// what that means to somebody who knows the cache (L03, L04).
type applier[T object.Object] struct {
	initial  bool // Adds of a Replaced are part of the initial list
	replaced bool
	resync   bool
	events   []Event[T]
}

// expect makes room for the events that batch is likely to cause. A set that
// replaces another as a rule changes little of it.
func (a *applier[T]) expect(batch deltafifo.Batch[T]) {
	n := len(batch.Deltas)
	if a.initial {
		for i := range batch.Deltas {
			n += len(batch.Deltas[i].Items)
		}
	}
	a.events = make([]Event[T], 0, n)
}

func (a *applier[T]) apply(w indexer.Writer[T], d *deltafifo.Delta[T]) {
	switch d.Type {
	case deltafifo.Added, deltafifo.Updated:
		if old, existed, changed := w.Set(d.Key, d.Object); changed {
			a.event(d, indexer.Change[T]{Key: d.Key, Old: old, New: d.Object, Existed: existed, Exists: true})
		}
	case deltafifo.Deleted:
		a.deleted(w, d)
	case deltafifo.Replaced:
		w.Replace(d.Items, func(c indexer.Change[T]) { a.event(d, c) })
		a.replaced, a.initial = true, false
	case deltafifo.Sync:
		a.resync = true
	case deltafifo.Bookmark: // its RV is the batch's
	}
}

// deleted tells of a deletion: with its final state, or, where the cache holds
// an older object of that name, without, because that one's own end was missed.
func (a *applier[T]) deleted(w indexer.Writer[T], d *deltafifo.Delta[T]) {
	old, existed := w.Delete(d.Key)
	if !existed {
		return
	}
	if old.GetUID() != d.Object.GetUID() {
		a.add(d, Event[T]{Type: Delete, Object: old, FinalStateUnknown: true})
		return
	}
	a.add(d, Event[T]{Type: Delete, Object: d.Object, Old: old})
}

// event tells of a change that may have been found rather than watched.
func (a *applier[T]) event(d *deltafifo.Delta[T], c indexer.Change[T]) {
	switch {
	case !c.Exists:
		a.add(d, Event[T]{Type: Delete, Object: c.Old, FinalStateUnknown: true})
	case !c.Existed:
		a.add(d, Event[T]{Type: Add, Object: c.New, Initial: a.initial && d.Type == deltafifo.Replaced})
	case c.Old.GetUID() != c.New.GetUID():
		a.add(d, Event[T]{Type: Delete, Object: c.Old, FinalStateUnknown: true})
		a.add(d, Event[T]{Type: Add, Object: c.New})
	default:
		a.add(d, Event[T]{Type: Update, Old: c.Old, Object: c.New})
	}
}

func (a *applier[T]) add(d *deltafifo.Delta[T], e Event[T]) {
	if e.Received = d.Received; !e.Received.IsZero() {
		e.Decoded, e.Queued = d.Decoded.Sub(d.Received), d.Queued.Sub(d.Received)
	}
	a.events = append(a.events, e)
}
