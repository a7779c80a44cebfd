package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Reconciles is what the reconciler of every contestant reports to: it finds the
// object of its request in the cache and has nothing to do. No object changes
// twice, so that there is one reconcile for each object and one for each event.
type Reconciles struct {
	objects, all     int64
	count, missed    atomic.Int64
	first            atomic.Int64 // when the first was, Unix ns
	initial, changes chan struct{}
}

// NewReconciles expects those of a scenario.
func NewReconciles(s *protocol.Session) *Reconciles {
	return &Reconciles{
		objects: int64(s.Objects), all: int64(s.Objects + s.Params[Events]),
		initial: make(chan struct{}), changes: make(chan struct{}),
	}
}

// Reconciled counts one, and whether its object was in the cache. It may be
// called by any number of workers.
func (r *Reconciles) Reconciled(found bool) {
	if !found {
		r.missed.Add(1)
	}
	count := r.count.Add(1)
	if count == 1 {
		r.first.Store(time.Now().UnixNano())
	}
	if count == r.objects {
		close(r.initial)
	}
	if count == r.all {
		close(r.changes)
	}
}

// Count is how many there were.
func (r *Reconciles) Count() int64 { return r.count.Load() }

// ReconcileSteps are what Run measures.
type ReconcileSteps struct {
	// Go starts everything and does not wait.
	Go func()

	// Sync waits until the cache is complete.
	Sync func(ctx context.Context) error
}

// Run sets the marks: when the cache is complete, when each object was
// reconciled, when the changes may come, and when each of them was reconciled. In s.Metrics it says how long after the
// first of them the first reconcile was. It fails with the cause of the end of ctx.
func (r *Reconciles) Run(ctx context.Context, s *protocol.Session, steps ReconcileSteps) error {
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return err
	}
	steps.Go()
	if err := steps.Sync(ctx); err != nil {
		return err
	}
	synced := time.Now()
	if err := s.Mark(protocol.MarkCached); err != nil {
		return err
	}
	if err := wait(ctx, r.initial); err != nil {
		return err
	}
	if err := s.Mark(protocol.MarkReconciled); err != nil {
		return err
	}
	protocol.HeapInUse() // the collection of what the start left is not that of the changes
	if err := s.Mark(protocol.MarkSynced); err != nil {
		return err
	}
	if err := wait(ctx, r.changes); err != nil {
		return err
	}
	if err := s.Mark(protocol.MarkDone); err != nil {
		return err
	}
	if missed := r.missed.Load(); missed > 0 {
		return fmt.Errorf("%d reconciles did not find their object", missed)
	}
	s.Metrics = map[string]float64{results.FirstReconcile: max(0, time.Unix(0, r.first.Load()).Sub(synced).Seconds())}
	return nil
}

func wait(ctx context.Context, happened <-chan struct{}) error {
	select {
	case <-happened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
