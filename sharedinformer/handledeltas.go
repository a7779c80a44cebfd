package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
)

// process applies queued deltas until ctx is done and the queue is empty. By the time ctx is done, the feeds
// have ended.
func (i *core) process(ctx context.Context, r *run) {
	var err error
	guard := failure.Guard{In: "a method of an object"}
	defer func() {
		if err != nil {
			i.markBroken(r, err)
		}
	}()
	defer guard.End(&err, func(error) { err = &failure.GoexitError{In: "an index function"} }) // the key of the error is the index name
	i.applyQueued(ctx)
	guard.Returned()
}

// markBroken ends this run and prevents later ones. It is called if user code panics or calls runtime.Goexit
// in the middle of a batch, so that the batch is only partly applied.
func (i *core) markBroken(r *run, err error) {
	now := time.Now()
	f := &failure.Failure{
		Resource: i.Name(), Phase: failure.PhaseIndex, Attempts: 1, Since: now, Last: now,
		Err: fmt.Errorf("%w; the cache is unusable: fix the function and create a new informer", err),
	}
	if _, ok := errors.AsType[*failure.PanicError](err); ok {
		f.Phase = failure.PhaseCache
	}
	i.failure.Store(f)
	i.broken.Store(f)
	i.synced.Store(false)
	r.fail(f)
	i.report(context.WithoutCancel(r.ctx), nil, f)
}

// applyQueued is like process, without panic handling.
func (i *core) applyQueued(ctx context.Context) {
	var reuse []deltafifo.Delta
	for {
		deltas, err := i.queue.Pop(ctx, reuse)
		if err != nil {
			break
		}
		i.handleDeltas(deltas)
		reuse = deltas
	}
	for deltas := i.queue.TryPop(); deltas != nil; deltas = i.queue.TryPop() {
		i.handleDeltas(deltas)
	}
}

// batchInProgress is a batch that was taken from the queue.
type batchInProgress struct {
	deltas int
	at     time.Time
}

// handleDeltas applies one batch to the cache in a single write, and appends its changes to the log in a
// single append. It is called only by process's goroutine.
func (i *core) handleDeltas(deltas []deltafifo.Delta) {
	i.applying.Store(&batchInProgress{len(deltas), time.Now()})
	changes := applier{informer: i}
	if i.ownership != nil {
		changes.terms = i.ownership.Last()
	}
	changes.reserve(deltas, !i.synced.Load())
	changes.reuseEqual(deltas)
	failures, look := i.applyBatch(deltas, &changes)
	i.indexFailed(failures)
	for _, s := range changes.settled {
		s.feed.reflector.Settle(s.taken)
	}
	if i.mutations != nil {
		look()
	}
	i.applying.Store(nil)
	i.changed.broadcast()
}

// applyBatch is the part of handleDeltas that runs while holding join.
func (i *core) applyBatch(deltas []deltafifo.Delta, changes *applier) (failures []*indexer.IndexError, look func()) {
	i.join.Lock()
	defer i.join.Unlock() // an index function may call runtime.Goexit
	i.batches.Add(1)
	defer i.batches.Add(1)
	failures = i.cache.Write(func(w indexer.Writer) {
		for n := range deltas {
			changes.apply(w, &deltas[n])
		}
		i.feeds.advance(w, deltas)
		if i.mutations != nil { // before the objects become visible
			look = i.mutations.track(changes.events)
		}
		if i.packing != nil {
			i.packing.weigh(changes.events)
		}
	})
	for _, l := range changes.lists {
		l.feed.heldGains.Store(l.gains)
	}
	i.publish(changes)
	return failures, look
}

// publish appends a batch's changes to the log and wakes the handlers. The caller must hold join.
func (i *core) publish(changes *applier) {
	if len(changes.events) > 0 {
		applied := time.Now()
		for n := range changes.events {
			if e := &changes.events[n]; !e.Received.IsZero() {
				e.AppliedAfter = applied.Sub(e.Received)
			}
		}
		i.recordApplied(changes.events, applied)
		i.appendSegment(&segment{events: changes.events})
	}
	if changes.maySync && !i.synced.Load() && i.feeds.complete() {
		if i.snapshots != nil {
			i.snapshots.dropLoaded()
		}
		i.synced.Store(true)
		i.appendSegment(&segment{synced: true})
	}
	if !changes.resync {
		return
	}
	targets := make(map[mailbox]struct{})
	for _, d := range *i.handlers.Load() {
		if m := d.mailbox; d.resyncDue.Swap(false) && d.HasSynced() && m.claimResync() {
			targets[m] = struct{}{}
		}
	}
	if len(targets) > 0 {
		objects, _ := i.cache.Snapshot()
		i.appendSegment(&segment{resync: &resync{objects: objects, targets: targets}})
	}
}

// appendSegment links s to the log and offers it to every handler.
func (i *core) appendSegment(s *segment) {
	i.log.append(s)
	for _, d := range *i.handlers.Load() {
		d.offer(s)
	}
}
