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
type openedMutations struct {
	*mutationDetector
	heads *mutationDetector

	// Guarded by mu.
	cached map[object.Key]packedHead
	early  map[*wire.Packed]*original // opened by an index, before they are cached, or when they have left
}

// packedHead is a packed object and what of its head could be changed.
type packedHead struct {
	*wire.Packed
	shared object.Head
}

func newOpenedMutations(every time.Duration, report func(*failure.Failure), goType reflect.Type) *openedMutations {
	m := &openedMutations{
		mutationDetector: newMutationDetector(every, report),
		heads:            newMutationDetector(every, report),
		cached:           make(map[object.Key]packedHead),
		early:            make(map[*wire.Packed]*original),
	}
	m.heads.typeOf = func(head object.Object) string {
		return cmp.Or(head.(*metav1.PartialObjectMetadata).Kind, goType.String())
	}
	return m
}

// headOf returns what of the head of o could be changed. Where the object is kept as it is
// the head is a part of it. Its kind is the Go type of the object.
func headOf(o *wire.Packed) *metav1.PartialObjectMetadata {
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
func (m *openedMutations) opened(p *wire.Packed, o object.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := object.KeyOf(p)
	if m.cached[key].Packed == p {
		m.watch(key, o)
	} else {
		m.early[p] = newOriginal(key, o)
	}
}

func (m *openedMutations) learn(events []event) (look func()) {
	heads := make([]event, len(events))
	for i := range events {
		heads[i].Type, heads[i].Object = events[i].Type, headOf(packedOf(events[i].Object))
	}
	lookAtHeads := m.heads.learn(heads)
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []*original
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
		packed := packedOf(e.Object)
		m.cached[key] = packedHead{packed, heads[i].Object}
		if o, ok := m.early[packed]; ok {
			m.watched[key] = o
		} else if packed.Kept() {
			o, _ := packed.InUse()
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
func (m *openedMutations) run(ctx context.Context) {
	var heads sync.WaitGroup
	defer heads.Wait()
	heads.Go(func() { m.heads.run(ctx) })
	m.mutationDetector.run(ctx)
}

// look looks at the head, and at the object if it is in use.
func (m *openedMutations) look(shared object.Head, handler string) {
	packed := packedOf(shared)
	m.mu.Lock()
	have := m.cached[object.KeyOf(shared)]
	m.mu.Unlock()
	if have.Packed == packed {
		m.heads.look(have.shared, handler)
	}
	if o, ok := packed.InUse(); ok {
		m.mutationDetector.look(o, handler)
	}
}
