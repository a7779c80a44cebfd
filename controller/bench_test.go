package controller_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/object"
)

// BenchmarkReconcile measures the cost of a reconcile that does nothing, from Inbox.Add to the next
// hand-out, with 50,000 requests at a time.
func BenchmarkReconcile(b *testing.B) {
	const requests = 50_000
	all := make([]controller.Request, requests)
	for n := range all {
		all[n] = controller.Request{Key: object.Key{Namespace: fmt.Sprint("ns", n%50), Name: fmt.Sprint("pod-", n)}}
	}
	left := make(chan struct{}, requests)
	c, err := controller.New("bench", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
		left <- struct{}{}
		return controller.Result{}, nil
	}), controller.Options{})
	require.NoError(b, err)
	rounds := make(chan int)
	c.Watch(controller.SourceFunc("rounds", func(ctx context.Context, in *controller.Inbox) error {
		in.Synced()
		for n := range rounds {
			for _, req := range all[:n] {
				in.Add(controller.Updated, req.Key, req)
			}
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		n := min(requests, b.N-done)
		rounds <- n
		for range n {
			<-left
		}
		done += n
	}
	b.StopTimer()
	close(rounds)
	cancel()
	require.NoError(b, <-ended)
}
