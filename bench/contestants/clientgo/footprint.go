package clientgo

import (
	"context"
	"runtime"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// footprint measures how many goroutines and bytes a synced informer and a handler use.
func (k Stack) footprint(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	if err := setWatchList(s); err != nil {
		return nil, err
	}
	f, i, err := k.follower(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.Shutdown()
	defer cancel()
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	return scenario.Footprint(s, scenario.FootprintSteps{
		Sync: func() (*protocol.Result, error) {
			f.StartWithContext(ctx)
			<-i.HasSyncedChecker().Done()
			return account(s, nil, i)
		},
		Handler: func() error {
			r, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{})
			if err != nil {
				return err
			}
			<-r.HasSyncedChecker().Done()
			return nil
		},
		Keep: func() { runtime.KeepAlive(i) },
	})
}
