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

// direct creates informers that list and watch through a Millrace client. Their objects share equal
// values.
type direct struct {
	client *rest.Client
	pool   *wire.Pool
}

// informer returns an informer that reads from open's source. It passes a pool to open, or nil if objects
// are transformed.
func (d *direct) informer(name string, example runtime.Object, resync time.Duration, o *options, open func(*wire.Pool) source.ListerWatcher) *informer {
	i := newInformer(name, resync, byNamespace())
	i.holds, i.caches = fmt.Sprintf("%T", example), o.store
	i.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{}, example, i.store, cache.ReflectorOptions{Name: name, TypeDescription: name})
	i.open = func(transform transform) source.ListerWatcher {
		if transform == nil {
			return narrowed(open(d.pool), o.tweak)
		}
		return transform(narrowed(open(nil), o.tweak))
	}
	return i
}

// narrowed returns from, with tweak applied to each request.
func narrowed(from source.ListerWatcher, tweak func(*metav1.ListOptions)) source.ListerWatcher {
	if tweak == nil {
		return from
	}
	return &tweaking{from, tweak}
}

// tweaking is a source that applies tweak to each request.
type tweaking struct {
	source.ListerWatcher
	tweak func(*metav1.ListOptions)
}

// Describe implements source.ListerWatcher.
func (t *tweaking) Describe() source.Description {
	d := t.ListerWatcher.Describe()
	if origin := d.Origin; origin != nil {
		d.Origin = func() (source.Origin, bool) { return t.narrow(origin()) }
	}
	return d
}

// narrow adds the tweak's selectors to an origin.
func (t *tweaking) narrow(o source.Origin, known bool) (source.Origin, bool) {
	var opts metav1.ListOptions
	t.tweak(&opts)
	if opts.LabelSelector != "" {
		o.Scope += " labels " + opts.LabelSelector
	}
	if opts.FieldSelector != "" {
		o.Scope += " fields " + opts.FieldSelector
	}
	return o, known
}

// List implements source.ListerWatcher.
func (t *tweaking) List(ctx context.Context, req source.Request) source.List[object.Head] {
	t.tweak(&req.ListOptions)
	return t.ListerWatcher.List(ctx, req)
}

// Watch implements source.ListerWatcher.
func (t *tweaking) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	t.tweak(&req.ListOptions)
	return t.ListerWatcher.Watch(ctx, req)
}
