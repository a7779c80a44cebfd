package millrace

import (
	"context"
	"runtime"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// footprint measures how many goroutines and bytes a synced informer and a handler use.
func (k Stack) footprint(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	f, err := k.newFactory(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.Wait()
	defer cancel()
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	return scenario.Footprint(s, scenario.FootprintSteps{
		Sync: func() (*protocol.Result, error) {
			i := factory.Informer[*corev1.Pod](f)
			f.Start(ctx)
			if err := i.WaitForSync(ctx); err != nil {
				return nil, err
			}
			return account(s, i, nil), nil
		},
		Handler: func() error {
			i := factory.Informer[*corev1.Pod](f)
			return i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{}).WaitForSync(ctx)
		},
		Keep: func() { runtime.KeepAlive(f) },
	})
}
