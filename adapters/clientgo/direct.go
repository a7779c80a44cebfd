package clientgo

import (
	"context"
	"fmt"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// direct makes informers that list and watch through a Millrace client and whose
// objects share equal parts.
type direct struct {
	client *rest.Client
	pool   *wire.Pool
}

// informer returns an informer of what open gives, which is asked for a source
// with a pool, or, where objects are transformed, without one.
func (d *direct) informer(name string, example runtime.Object, resync time.Duration, o *options, open func(*wire.Pool) source.Reuser[object.Object]) *informer {
	i := newInformer(name, resync, byNamespace())
	i.holds, i.caches = fmt.Sprintf("%T", example), o.store
	i.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{}, example, i.store, cache.ReflectorOptions{Name: name, TypeDescription: name})
	i.open = func(transform transform) source.ListerWatcher[object.Object] {
		if transform == nil {
			return narrowed(open(d.pool), o.tweak)
		}
		return transform(narrowed(open(nil), o.tweak))
	}
	return i
}

// narrowed returns from with tweaked options.
func narrowed(from source.Reuser[object.Object], tweak func(*metav1.ListOptions)) source.ListerWatcher[object.Object] {
	if tweak == nil {
		return from
	}
	return &tweaking{from, from, tweak}
}

// tweaking is a source with tweaked options.
type tweaking struct {
	source.ListerWatcher[object.Object]
	whole source.Reuser[object.Object] // what it is made of
	tweak func(*metav1.ListOptions)
}

// Reusing implements source.Reuser.
func (t *tweaking) Reusing(known wire.Known[object.Object]) source.ListerWatcher[object.Object] {
	return &tweaking{t.whole.Reusing(known), t.whole, t.tweak}
}

// Origin implements source.Traced: what the tweak selects narrows it.
func (t *tweaking) Origin() (source.Origin, bool) {
	o, ok := source.OriginOf(t.whole)
	var opts metav1.ListOptions
	t.tweak(&opts)
	if opts.LabelSelector != "" {
		o.Scope += " labels " + opts.LabelSelector
	}
	if opts.FieldSelector != "" {
		o.Scope += " fields " + opts.FieldSelector
	}
	return o, ok
}

// List implements source.ListerWatcher.
func (t *tweaking) List(ctx context.Context, opts metav1.ListOptions) source.List[object.Object] {
	t.tweak(&opts)
	return t.ListerWatcher.List(ctx, opts)
}

// Watch implements source.ListerWatcher.
func (t *tweaking) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Object], error], error) {
	t.tweak(&opts)
	return t.ListerWatcher.Watch(ctx, opts)
}
