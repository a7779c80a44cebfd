package clientgo

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// queue adapts client-go's work queue to the scenario's interface.
type queue struct {
	workqueue.TypedDelayingInterface[types.NamespacedName]
}

func (q queue) Get() (types.NamespacedName, error) {
	key, shutdown := q.TypedDelayingInterface.Get()
	if shutdown {
		return key, errors.New("the queue was shut down")
	}
	return key, nil
}

// workQueue sends keys through a work queue.
func workQueue(_ context.Context, s *protocol.Session) (*protocol.Result, error) {
	q := workqueue.NewTypedDelayingQueue[types.NamespacedName]()
	defer q.ShutDown()
	return scenario.WorkQueue(s, queue{q})
}
