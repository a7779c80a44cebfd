package sharedinformer

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// openedMutations detects mutations of a packed cache: of objects that were opened, and of
// what their heads share with those of others. The bytes cannot be changed.
type openedMutations[T object.Object] struct {
	*mutationDetector[T]
	heads *mutationDetector[*metav1.PartialObjectMetadata]

	// Guarded by mu.
	cached map[object.Key]packedHead[T]
	early  map[*wire.Packed[T]]*original[T] // opened by an index, before they are cached, or when they have left
}

// packedHead is a packed object and what of its head could be changed.
type packedHead[T object.Object] struct {
	*wire.Packed[T]
	shared *metav1.PartialObjectMetadata
}

func newOpenedMutations[T object.Object](every time.Duration, report func(*failure.Failure)) *openedMutations[T] {
	m := &openedMutations[T]{
		mutationDetector: newMutationDetector[T](every, report),
		heads:            newMutationDetector[*metav1.PartialObjectMetadata](every, report),
		cached:           make(map[object.Key]packedHead[T]),
		early:            make(map[*wire.Packed[T]]*original[T]),
	}
	m.heads.typeOf = func(head *metav1.PartialObjectMetadata) string {
		return cmp.Or(head.Kind, reflect.TypeFor[T]().String())
	}
	return m
}

// headOf returns what of the head of o could be changed. Where the object is kept as it is
// the head is a part of it. Its kind is the Go type of the object.
func headOf[T object.Object](o *wire.Packed[T]) *metav1.PartialObjectMetadata {
	head := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
	if !o.Kept() {
		head.Labels, head.OwnerReferences, head.DeletionTimestamp = o.GetLabels(), o.GetOwnerReferences(), o.GetDeletionTimestamp()
		if bare, ok := o.Bare(); ok {
			head.Kind = fmt.Sprintf("%T", bare)
		}
	}
	return head
}

// opened is called with each object before anybody else has it.
func (m *openedMutations[T]) opened(p *wire.Packed[T], o T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := object.KeyOf(p)
	if m.cached[key].Packed == p {
		m.watch(key, o)
	} else {
		m.early[p] = &original[T]{shared: o, copy: o.DeepCopyObject().(T), key: key}
	}
}

func (m *openedMutations[T]) learn(events []Event[*wire.Packed[T]]) (look func()) {
	heads := make([]Event[*metav1.PartialObjectMetadata], len(events))
	for i := range events {
		heads[i].Type, heads[i].Object = events[i].Type, headOf(events[i].Object)
	}
	lookAtHeads := m.heads.learn(heads)
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []*original[T]
	for i := range events {
		e := &events[i]
		key := object.KeyOf(e.Object)
		if before, ok := m.watched[key]; ok {
			left = append(left, before)
			delete(m.watched, key)
		}
		if e.Type == Delete {
			delete(m.cached, key)
			continue
		}
		m.cached[key] = packedHead[T]{e.Object, heads[i].Object}
		if o, ok := m.early[e.Object]; ok {
			m.watched[key] = o
		} else if e.Object.Kept() {
			o, _ := e.Object.InUse()
			m.watch(key, o)
		}
	}
	clear(m.early)
	return func() {
		m.checkLeft(left)
		lookAtHeads()
	}
}

// run implements mutations.
func (m *openedMutations[T]) run(ctx context.Context) {
	var heads sync.WaitGroup
	defer heads.Wait()
	heads.Go(func() { m.heads.run(ctx) })
	m.mutationDetector.run(ctx)
}

// look looks at the head, and at the object if it is in use.
func (m *openedMutations[T]) look(shared *wire.Packed[T], handler string) {
	m.mu.Lock()
	have := m.cached[object.KeyOf(shared)]
	m.mu.Unlock()
	if have.Packed == shared {
		m.heads.look(have.shared, handler)
	}
	if o, ok := shared.InUse(); ok {
		m.mutationDetector.look(o, handler)
	}
}
