package scenario

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

// First waits for the first reconcile of a contestant's controller.
type First struct {
	once sync.Once
	came chan struct{}
}

// NewFirst returns a First.
func NewFirst() *First { return &First{came: make(chan struct{})} }

// Reconciled records a reconcile. It is safe for concurrent use.
func (f *First) Reconciled() { f.once.Do(func() { close(f.came) }) }

// ManagerStart sets a mark, starts the manager without waiting for it, and sets another mark at its first
// reconcile. Then it calls count to measure the caches, which must be complete. If ctx is canceled,
// ManagerStart returns its cause.
func ManagerStart(ctx context.Context, s *protocol.Session, start func(), first *First, count func() (*protocol.Result, error)) (*protocol.Result, error) {
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	start()
	if err := wait(ctx, first.came); err != nil {
		return nil, err
	}
	if err := s.Mark(protocol.MarkDone); err != nil {
		return nil, err
	}
	r, err := count()
	if err != nil {
		return nil, err
	}
	if want := s.Objects * s.Params[Kinds]; r.Objects != want {
		return nil, fmt.Errorf("%d objects were cached at the first reconcile, want %d", r.Objects, want)
	}
	return r, nil
}
