package sharedinformer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
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

// Create an informer of a custom source, with an index and a handler. Package factory creates
// informers for an API server.
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

// lettersTo returns a running informer with one letter, and a function that stops it.
func lettersTo(reader string) (letters *sharedinformer.Informer[*corev1.ConfigMap], stop func()) {
	letters = sharedinformer.New[*corev1.ConfigMap](letter{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", ResourceVersion: "7"},
		Data:       map[string]string{"to": reader},
	}}, sharedinformer.Options{Initial: reflector.List})
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := letters.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return letters, func() {
		cancel()
		_ = wait() // the error of ctx
	}
}

// Look up objects that have several values. An index may be added while the informer runs.
func ExampleAddIndex() {
	letters, stop := lettersTo("bob")
	defer stop()
	words := sharedinformer.AddIndex(letters, "words", func(m *corev1.ConfigMap) []string { return []string{m.Data["to"], m.Namespace} })
	if err := letters.WaitForSync(context.Background()); err != nil {
		log.Fatal(err)
	}
	for m := range words.Get("shop") { // shared: DeepCopy before a change
		fmt.Println(m.Name, "to", m.Data["to"])
	}
	fmt.Println(words.Len("alice"), "to alice")
	// Output:
	// a to bob
	// 0 to alice
}

// A handler that joins late receives an Add for each cached object first. WaitForSync returns when it
// has handled them.
func ExampleInformer_AddHandler() {
	letters, stop := lettersTo("bob")
	defer stop()
	ctx := context.Background()
	if err := letters.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	late := letters.AddHandler(sharedinformer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e sharedinformer.Event[*corev1.ConfigMap]) error {
		fmt.Println(e.Type, e.Object.Name)
		return nil
	}))
	if err := late.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("it has heard everything")
	if err := late.CloseAndWait(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// add a
	// it has heard everything
}

// refused is a source that the credentials may not read.
type refused struct{ letter }

func (refused) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{
		Meta:  &metav1.ListMeta{},
		Items: func(yield func(object.Head, error) bool) { yield(nil, errors.New("letters is forbidden")) },
	}
}

// The error of WaitForSync says why there is no cache.
func ExampleInformer_WaitForSync() {
	letters := sharedinformer.New[*corev1.ConfigMap](refused{}, sharedinformer.Options{Initial: reflector.List})
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := letters.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	patience, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	fmt.Println(strings.Contains(letters.WaitForSync(patience).Error(), "letters is forbidden"))
	cancel()
	_ = wait() // the error of ctx
	// Output: true
}
