package clientgo

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/sharedinformer"
)

// runner stores informers by key and runs each of them once.
type runner[K comparable] struct {
	mu        sync.Mutex // guards the fields below; held while creating informers, which calls no user functions except InformerFor's
	informers map[K]cache.SharedIndexInformer
	started   map[K]bool
	tasks     sync.WaitGroup
	closed    bool
}

func (r *runner[K]) get(key K, newInformer func() cache.SharedIndexInformer) cache.SharedIndexInformer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.informers[key]; ok {
		return i
	}
	if r.informers == nil {
		r.informers, r.started = make(map[K]cache.SharedIndexInformer), make(map[K]bool)
	}
	i := newInformer()
	r.informers[key] = i
	return i
}

func (r *runner[K]) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	for key, i := range r.informers {
		if !r.started[key] {
			r.started[key] = true
			r.tasks.Go(func() { i.RunWithContext(ctx) })
		}
	}
}

func (r *runner[K]) shutdown() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.tasks.Wait()
}

// wait waits for the started informers. The error lists each informer that has not synced, with its
// state and last failure.
func (r *runner[K]) wait(ctx context.Context) (map[K]bool, error) {
	r.mu.Lock()
	waiting := maps.Clone(r.informers)
	maps.DeleteFunc(waiting, func(key K, _ cache.SharedIndexInformer) bool { return !r.started[key] })
	r.mu.Unlock()
	synced := make(map[K]bool, len(waiting))
	var failures []error
	for key, i := range waiting {
		err := WaitForSync(ctx, i)
		synced[key] = err == nil
		failures = append(failures, err)
	}
	return synced, errors.Join(failures...)
}

// views returns the Millrace informers, sorted by name.
func (r *runner[K]) views() (all []sharedinformer.View) {
	r.mu.Lock()
	informers := slices.Collect(maps.Values(r.informers))
	r.mu.Unlock()
	for _, i := range informers {
		if v, ok := ViewOf(i); ok {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b sharedinformer.View) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

func (r *runner[K]) status() (all []sharedinformer.Status) {
	for _, v := range r.views() {
		all = append(all, v.Status())
	}
	return all
}
