package sharedinformer

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// world is a server with namespaces whose history never expires. Everything is guarded by mu.
type world struct {
	mu      sync.Mutex
	rv      int
	objects map[object.Key]partial
	history []wire.Event[object.Head]
	more    chan struct{} // closed at the next change
	cut     chan struct{} // closed to break all watches
	slow    bool          // watches linger after they are cancelled
}

func newWorld() *world {
	return &world{rv: 10, objects: map[object.Key]partial{}, more: make(chan struct{}), cut: make(chan struct{})}
}

// change adds, updates, deletes or re-creates one object.
func (w *world) change(rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := object.Key{Namespace: string(rune('a' + rng.IntN(3))), Name: strconv.Itoa(rng.IntN(4))}
	w.rv++
	old, ok := w.objects[key]
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: strconv.Itoa(w.rv)}}
	e := wire.Event[object.Head]{Type: watch.Added, Object: o}
	switch {
	case !ok:
		o.UID = types.UID("u" + strconv.Itoa(w.rv))
		w.objects[key] = o
	case rng.IntN(3) == 0:
		o.UID, e.Type = old.UID, watch.Deleted
		delete(w.objects, key)
	default:
		o.UID, e.Type = old.UID, watch.Modified
		w.objects[key] = o
	}
	e.Received = time.Now()
	w.history = append(w.history, e)
	close(w.more)
	w.more = make(chan struct{})
}

func (w *world) breakWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
	w.cut = make(chan struct{})
}

// part is the world as seen by one namespace.
type part struct{ *world }

func (part) Describe() source.Description {
	return source.Description{Name: "things", Narrows: true}
}

func (part) has(req source.Request, o partial) bool {
	return req.Namespace == "" || o.Namespace == req.Namespace
}

func (p part) List(_ context.Context, req source.Request) source.List[object.Head] {
	meta := new(metav1.ListMeta)
	return source.List[object.Head]{Meta: meta, Items: func(yield func(object.Head, error) bool) {
		p.mu.Lock()
		meta.ResourceVersion = strconv.Itoa(p.rv)
		var items []partial
		for _, o := range p.objects {
			if p.has(req, o) {
				items = append(items, o)
			}
		}
		p.mu.Unlock()
		for _, o := range items {
			if !yield(o, nil) {
				return
			}
		}
	}}
}

func (p part) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	from, _ := strconv.Atoi(opts.ResourceVersion)
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	return func(yield func(wire.Event[object.Head], error) bool) {
		for n := 0; ; {
			p.mu.Lock()
			events, more, slow := p.history[n:], p.more, p.slow
			n = len(p.history)
			p.mu.Unlock()
			for _, e := range events {
				if rv, _ := strconv.Atoi(e.Object.GetResourceVersion()); rv > from && p.has(opts, e.Object.(partial)) && !yield(e, nil) {
					return
				}
			}
			select {
			case <-more:
			case <-cut:
				yield(wire.Event[object.Head]{}, fmt.Errorf("cut"))
				return
			case <-ctx.Done():
				if slow {
					time.Sleep(3 * time.Second)
				}
				return
			}
		}
	}, nil
}
