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

// narrowed returns from with tweaked options. Like from, it may be a source.Packer.
func narrowed(from source.ListerWatcher, tweak func(*metav1.ListOptions)) source.ListerWatcher {
	if tweak == nil {
		return from
	}
	t := &tweaking{from, tweak}
	if packer, ok := from.(source.Packer); ok {
		return &packedTweaking{t, packer}
	}
	return t
}

// tweaking is a source with tweaked options.
type tweaking struct {
	source.ListerWatcher
	tweak func(*metav1.ListOptions)
}

// String names the source.
func (t *tweaking) String() string { return source.NameOf(t.ListerWatcher) }

// SharedParts implements source.Sharer as the source does.
func (t *tweaking) SharedParts() *wire.Pool {
	if sharer, ok := t.ListerWatcher.(source.Sharer); ok {
		return sharer.SharedParts()
	}
	return nil
}

// Reusing implements source.Reuser as the source does.
func (t *tweaking) Reusing(known wire.Known) source.ListerWatcher {
	if reuser, ok := t.ListerWatcher.(source.Reuser); ok {
		return &tweaking{reuser.Reusing(known), t.tweak}
	}
	return t
}

// Choosing implements source.Chooser as the source does.
func (t *tweaking) Choosing(wanted func(object.Head) bool) source.ListerWatcher {
	return &tweaking{source.Choosing(t.ListerWatcher, wanted), t.tweak}
}

// Selecting implements source.Selector as the source does.
func (t *tweaking) Selecting(s source.Selection) source.ListerWatcher {
	return &tweaking{source.Selecting(t.ListerWatcher, s), t.tweak}
}

// Kept implements source.Limited as the source does.
func (t *tweaking) Kept() wire.Fields { return limitsOf(t.ListerWatcher).Kept() }

// Altered implements source.Limited as the source does.
func (t *tweaking) Altered() bool { return limitsOf(t.ListerWatcher).Altered() }

// Reaches implements source.Limited as the source does.
func (t *tweaking) Reaches(namespace string) bool {
	return limitsOf(t.ListerWatcher).Reaches(namespace)
}

// In implements source.Namespacer where the source does, and fails otherwise.
func (t *tweaking) In(namespace string) (source.ListerWatcher, error) {
	whole, ok := t.ListerWatcher.(source.Namespacer)
	if !ok {
		return nil, fmt.Errorf("%s cannot be narrowed to a namespace: it is no source.Namespacer", t)
	}
	in, err := whole.In(namespace)
	if err != nil {
		return nil, err
	}
	return &tweaking{in, t.tweak}, nil
}

// Kind implements source.Kinded as the source does.
func (t *tweaking) Kind() object.GVK { return source.KindOf(t.ListerWatcher) }

// Origin implements source.Traced: what the tweak selects narrows it.
func (t *tweaking) Origin() (source.Origin, bool) {
	o, ok := source.OriginOf(t.ListerWatcher)
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
func (t *tweaking) List(ctx context.Context, opts metav1.ListOptions) source.List[object.Head] {
	t.tweak(&opts)
	return t.ListerWatcher.List(ctx, opts)
}

// Watch implements source.ListerWatcher.
func (t *tweaking) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	t.tweak(&opts)
	return t.ListerWatcher.Watch(ctx, opts)
}

// packedTweaking is a source with tweaked options that packs its objects itself.
type packedTweaking struct {
	*tweaking
	packer source.Packer
}

// Packing implements source.Packer.
func (t *packedTweaking) Packing(p *wire.Packer) source.Namespacer {
	return &tweaking{t.packer.Packing(p), t.tweak}
}
