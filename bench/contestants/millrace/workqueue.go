package millrace

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/workqueue"
)

// queue adapts Millrace's work queue to the scenario's interface.
type queue struct {
	*workqueue.Queue[types.NamespacedName]
	ctx context.Context
}

func (q queue) Get() (types.NamespacedName, error) { return q.Queue.Get(q.ctx) }

// workQueue sends keys through a work queue.
func workQueue(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	q := workqueue.New(workqueue.Options[types.NamespacedName]{Name: "bench"})
	defer q.ShutDown()
	return scenario.WorkQueue(s, queue{q, ctx})
}
