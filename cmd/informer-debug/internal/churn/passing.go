package churn

import (
	"context"
	"errors"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// passing is a source that counts objects as they pass through. Its reflector's queue drops everything.
type passing struct {
	*churning
	from source.ListerWatcher
	by   wire.PackerRef // packs objects while decoding; nil if pack is used instead
	pack func(object.Head) (packedUntyped, error)
}

// nowhere is a queue that drops everything.
type nowhere struct{}

func (nowhere) Add(deltafifo.Delta)               {}
func (nowhere) WaitForRoom(context.Context) error { return nil }

// NewHistoryQueued implements reflector.Queue. Nothing is queued.
func (nowhere) NewHistoryQueued(string) bool { return false }

// Describe implements source.ListerWatcher.
func (p *passing) Describe() source.Description { return source.Description{Name: p.at.String()} }

// passPacked returns a [passing] that reads from the server.
func (c *churning) passPacked() *passing {
	from := rest.ResourceForMapping[untyped](c.at.Client, c.at.Mapping).Namespace(c.at.Namespace).Source()
	return &passing{c, from, c.by, func(o object.Head) (packedUntyped, error) { return o.(packedUntyped), nil }}
}

// passAny returns a [passing] that reads a recording, in the encoding received at the time. c may be limited
// to one of the recorded namespaces.
func passAny[T object.Object](c *churning, recorded cluster.Target) *passing {
	return &passing{c, cluster.Source[T](recorded), nil, func(o object.Head) (packedUntyped, error) {
		tree, err := diff.Content(o.(object.Object))
		if err != nil {
			return nil, err
		}
		if tree["kind"] == nil { // missing in typed objects
			tree["apiVersion"], tree["kind"] = c.at.Mapping.Kind.GroupVersion().String(), c.at.Mapping.Kind.Kind
		}
		return c.by.Pack(&unstructured.Unstructured{Object: tree})
	}}
}

// run reads until ctx is done.
func (p *passing) run(ctx context.Context, opts reflector.Options, refusal func(*failure.Failure) error) error {
	r := reflector.New(p, nowhere{}, opts)
	err := r.Run(ctx)
	p.reflector = r.Status()
	if e, ok := errors.AsType[*failure.Failure](err); ok {
		return refusal(e)
	}
	return err
}

// List implements source.ListerWatcher. It stops passing on objects once space runs out, but the watch still
// reports changes to the rest.
func (p *passing) List(ctx context.Context, req source.Request) source.List[object.Head] {
	req.Packer = p.by
	list := p.from.List(ctx, req)
	return source.List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		all := p.beginList()
		for o, err := range list.Items {
			if err != nil {
				all.fail()
				yield(o, err)
				return
			}
			if p.elsewhere(o) {
				continue
			}
			if room := all.object(p.packed(o)); room && !yield(o, nil) {
				return
			}
		}
		all.end()
	}}
}

// Watch implements source.ListerWatcher. The watch may start with a streaming list.
func (p *passing) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	req.Packer = p.by
	events, err := p.from.Watch(ctx, req)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		var all *listing
		if req.SendInitialEvents != nil {
			all = p.beginList()
		}
		defer func() {
			if all != nil {
				all.fail()
			}
		}()
		for e, err := range events {
			switch {
			case err != nil:
			case e.Type == watch.Bookmark:
				if end, _ := object.Annotation(e.Object, metav1.InitialEventsAnnotationKey); all != nil && end == "true" {
					all.end()
					all = nil
				}
			case p.elsewhere(e.Object): // the reflector still receives it
			case all != nil:
				all.object(p.packed(e.Object))
			default:
				if o := p.packed(e.Object); o != nil {
					p.event(&wire.Event[packedUntyped]{Type: e.Type, Object: o, Bytes: e.Bytes})
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

// elsewhere reports whether an object is outside the counted namespace.
func (p *passing) elsewhere(o object.Head) bool {
	return p.at.Namespace != "" && o.GetNamespace() != p.at.Namespace
}

// packed packs an object for later comparison. It returns nil if packing fails.
func (p *passing) packed(o object.Head) packedUntyped {
	packed, err := p.pack(o)
	if err != nil {
		p.kinds.Unreadable++
		return nil
	}
	return packed
}

// listing is a list being read.
type listing struct {
	c            *churning
	before       map[object.Key]packedUntyped
	seen, missed int
}

func (c *churning) beginList() *listing {
	l := &listing{c: c, before: c.states}
	c.states, c.bytes, c.roomy = map[object.Key]packedUntyped{}, 0, true
	return l
}

// object handles one object of the list. It reports whether there was space.
func (l *listing) object(o packedUntyped) bool {
	if l.seen++; o == nil {
		return true
	}
	key := object.KeyOf(o)
	if was, had := l.before[key]; !had || was.GetResourceVersion() != o.GetResourceVersion() {
		l.missed++
	}
	delete(l.before, key)
	return l.c.hold(o)
}

// fail discards an incomplete list.
func (l *listing) fail() {
	l.c.missed(l.missed)
	for _, o := range l.before {
		l.c.hold(o)
	}
}

// end finishes a complete list.
func (l *listing) end() {
	if l.c.isSynced() {
		l.c.missed(l.missed + len(l.before))
		return
	}
	l.c.kinds.Listed = l.seen
	close(l.c.synced)
}

// missed counts objects that changed without an event.
func (c *churning) missed(n int) {
	if c.isSynced() {
		c.kinds.Missed += n
	}
}
