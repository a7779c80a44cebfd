package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Reconciles counts a contestant's reconciles. The reconciler looks up the requested object in the cache and
// does nothing else. No object changes twice, so there is one reconcile per object and one per event.
type Reconciles struct {
	objects, all     int64
	count, missed    atomic.Int64
	first            atomic.Int64 // time of the first reconcile, Unix ns
	initial, changes chan struct{}
}

// NewReconciles returns a Reconciles for a scenario.
func NewReconciles(s *protocol.Session) *Reconciles {
	return &Reconciles{
		objects: int64(s.Objects), all: int64(s.Objects + s.Params[Events]),
		initial: make(chan struct{}), changes: make(chan struct{}),
	}
}

// Reconciled records a reconcile, and whether its object was in the cache. It is safe for concurrent use.
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

// Count returns the number of reconciles so far.
func (r *Reconciles) Count() int64 { return r.count.Load() }

// ReconcileSteps contains the steps measured by Run.
type ReconcileSteps struct {
	// Go starts everything and does not wait.
	Go func()

	// Sync waits until the cache is complete.
	Sync func(ctx context.Context) error
}

// Run sets marks when the cache is complete, when all objects have been reconciled, before the changes start,
// and when all changes have been reconciled. In s.Metrics it stores the time from the first mark to the first
// reconcile. If ctx is canceled, it returns the cause.
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
	protocol.HeapInUse() // don't measure collection of the startup's garbage
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
		return fmt.Errorf("%d reconciles did not find their objects", missed)
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
