package source_test

import (
	"context"
	"fmt"
	"iter"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
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

func (letter) Describe() source.Description { return source.Description{Name: "the letter"} }

func (l letter) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(func(wire.Event[object.Head], error) bool) { <-ctx.Done() }, nil
}

// An informer can read any source. Filtered leaves out unwanted objects.
func Example() {
	var from source.ListerWatcher = letter{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", ResourceVersion: "7"}}}
	for _, namespace := range []string{"shop", "bank"} {
		list := source.Filtered(from, func(o object.Head) bool { return o.GetNamespace() == namespace }).List(context.Background(), source.Request{})
		n := 0
		for o, err := range list.Items {
			if err != nil {
				log.Fatal(err)
			}
			if o != nil {
				n++
			}
		}
		fmt.Println(namespace, n, "at version", list.Meta.ResourceVersion)
	}
	// Output:
	// shop 1 at version 7
	// bank 0 at version 7
}
