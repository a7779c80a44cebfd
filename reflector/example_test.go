package reflector_test

import (
	"context"
	"fmt"
	"iter"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// letter is a custom source: one ConfigMap that does not change.
type letter struct{ *corev1.ConfigMap }

func (l letter) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{
		Meta:  &metav1.ListMeta{ResourceVersion: "7"},
		Items: func(yield func(object.Head, error) bool) { yield(l.ConfigMap, nil) },
	}
}

func (letter) Describe() source.Description { return source.Description{Name: "letters"} }

func (l letter) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(func(wire.Event[object.Head], error) bool) { <-ctx.Done() }, nil
}

// A reflector lists the source and queues the whole list as one delta.
func Example() {
	from := letter{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", ResourceVersion: "7"}}}
	queue := deltafifo.New(deltafifo.Options{})
	r := reflector.New(from, queue, reflector.Options{Initial: reflector.List})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx) // the error of ctx
	}()
	deltas, err := queue.Pop(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(deltas[0].Type, len(deltas[0].Items), "at version", deltas[0].RV)
	cancel()
	<-ended
	// Output:
	// replaced 1 at version 7
}
