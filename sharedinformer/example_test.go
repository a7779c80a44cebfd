package sharedinformer_test

import (
	"context"
	"fmt"
	"iter"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// letter is a source of its own: one ConfigMap, which does not change.
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

// An informer of a source of its own, an index and a handler. Package factory makes
// informers of what an API server has.
func Example() {
	from := letter{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", ResourceVersion: "7"},
		Data:       map[string]string{"to": "bob"},
	}}
	letters := sharedinformer.New[*corev1.ConfigMap](from, sharedinformer.Options{Initial: reflector.List})
	byReader := sharedinformer.AddIndex(letters, "to", func(m *corev1.ConfigMap) []string { return []string{m.Data["to"]} })
	told := make(chan string, 1)
	letters.AddHandler(sharedinformer.HandlerFuncs[*corev1.ConfigMap]{
		Add: func(_ context.Context, m *corev1.ConfigMap, initial bool) error {
			told <- fmt.Sprint("add ", m.Name, ", initial: ", initial)
			return nil
		},
	})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = letters.Run(ctx) // the error of ctx
	}()
	if err := letters.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-told)
	for m := range byReader.Get("bob") {
		fmt.Println("for bob:", m.Name)
	}
	cancel()
	<-ended
	// Output:
	// add a, initial: true
	// for bob: a
}
