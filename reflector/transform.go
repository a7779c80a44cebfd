package reflector

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"path"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Sentinel errors for the transform phase.
var (
	// ErrNilTransform means that a transform returned nil without an error.
	ErrNilTransform = errors.New("the transform returned nil; return the object, or an error")
	// ErrTransformKey means that a transform changed an object's namespace or name.
	ErrTransformKey = errors.New("the transform changed the namespace or name; it may change anything else")
)

// TransformError reports that a transform failed on an object.
type TransformError struct {
	Transform string // the transform's name and file:line
	Key       object.Key
	Err       error
}

func (e *TransformError) Error() string {
	return fmt.Sprintf("transform %s: %v", object.FormatKey(e.Key), e.Err)
}

func (e *TransformError) Unwrap() error { return e.Err }

// Transformed returns a source whose objects are passed through transform, for example to make them smaller.
// The function owns its argument and may modify it in place; for this reason Transformed panics if from
// shares data between its objects (see rest.Resource.Sharing). An error, a panic, a nil result or a changed
// key ends the list or watch with a *TransformError. A reflector then acts as if it had not seen the change,
// and requests it again after a back-off. UID and resource version are restored if transform removed them.
// Neither bookmarks nor reused known objects are transformed; known objects have already been transformed.
func Transformed[T object.Object](from source.ListerWatcher, transform func(T) (T, error)) source.ListerWatcher {
	return newTransformed(from, onObjects(transform), transform)
}

// TransformedBy is like Transformed, for a transform that wraps another function. A TransformError reports
// that function's name and location.
func TransformedBy[T object.Object](from source.ListerWatcher, transform func(T) (T, error), calls any) source.ListerWatcher {
	return newTransformed(from, onObjects(transform), calls)
}

// onObjects adapts transform to objects of any type; it fails for objects that are not of type T. It returns
// nil if transform is nil.
func onObjects[T object.Object](transform func(T) (T, error)) func(object.Object) (object.Object, error) {
	if transform == nil {
		return nil
	}
	return func(o object.Object) (object.Object, error) {
		typed, ok := o.(T)
		if !ok {
			return nil, &source.TypeError{Have: reflect.TypeOf(o), Want: reflect.TypeFor[T]()}
		}
		return transform(typed)
	}
}

// newTransformed panics, reporting the location of its caller's caller, if an argument is nil or if from must
// not be transformed.
func newTransformed(from source.ListerWatcher, transform func(object.Object) (object.Object, error), calls any) *transformed {
	if from == nil || transform == nil {
		panic(failure.Place(2) + ": a transformed source needs a source and a function, and one of them is nil")
	}
	if d := source.Describe(from); d.Pool != nil {
		panic(failure.Place(2) + ": the objects of " + d.Name + " share data, and transforming one would change others: leave out Sharing")
	}
	return &transformed{source: source.Complete(from), transform: transform, place: placeOf(calls)}
}

// transformed handles every part of a request except packing. It transforms only wanted objects.
type transformed struct {
	source    source.ListerWatcher
	transform func(object.Object) (object.Object, error)
	place     string // where transform is defined
}

// Describe implements source.ListerWatcher.
func (t *transformed) Describe() source.Description {
	d := source.Describe(t.source)
	d.Altered, d.Packs = true, false
	return d
}

// trackKnown makes the request record the known objects it hands to the source.
func trackKnown(req *source.Request) *knownObjects {
	known := &knownObjects{known: req.Known}
	if req.Known != nil {
		req.Known = known.lookup
	}
	return known
}

// List lists from the source and transforms each item.
func (t *transformed) List(ctx context.Context, req source.Request) source.List[object.Head] {
	if req.VersionOnly {
		return t.source.List(ctx, req) // its items may be ones that a filter below omits
	}
	known := trackKnown(&req)
	list := t.source.List(ctx, req)
	items, calls := list.Items, callMonitorOf(ctx)
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if err == nil && !known.gave(item) {
				item, err = t.apply(calls, item)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
	return list
}

// Watch watches the source and transforms each change's object.
func (t *transformed) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	known := trackKnown(&req)
	events, err := t.source.Watch(ctx, req)
	if err != nil {
		return nil, err
	}
	calls := callMonitorOf(ctx)
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err == nil && e.Passed == nil && e.Type != watch.Bookmark && !known.gave(e.Object) {
				e.Object, err = t.apply(calls, e.Object)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}, nil
}

func (t *transformed) apply(calls *callMonitor, head object.Head) (made object.Head, err error) {
	o, ok := head.(object.Object)
	if !ok || source.IsNil(o) {
		return head, nil // errors from the source are reported elsewhere
	}
	key, uid, rv := object.KeyOf(o), o.GetUID(), o.GetResourceVersion()
	defer func() {
		if err != nil {
			made, err = nil, &TransformError{Transform: t.place, Key: key, Err: err}
		}
	}()
	out, err := t.call(calls, key, o)
	switch {
	case err != nil:
		return nil, err
	case source.IsNil(out):
		return nil, ErrNilTransform
	case object.KeyOf(out) != key:
		return nil, ErrTransformKey
	}
	if (out.GetUID() != uid || out.GetResourceVersion() != rv) && out != o {
		out = out.DeepCopyObject().(object.Object) // it may have been returned earlier and be in use
	}
	if out.GetUID() != uid {
		out.SetUID(uid)
	}
	if out.GetResourceVersion() != rv {
		out.SetResourceVersion(rv)
	}
	return out, nil
}

// call calls the transform. Goexit ends the goroutine and cannot be returned as an error, so it is turned
// into a panic that identifies the transform and not just the source.
func (t *transformed) call(calls *callMonitor, key object.Key, o object.Object) (out object.Object, err error) {
	calls.begin(call{"transform", t.place, key})
	defer calls.end()
	guard := failure.Guard{In: "transform"}
	defer guard.End(&err, func(exit error) {
		panic(&TransformError{Transform: t.place, Key: key, Err: exit})
	})
	out, err = t.transform(o)
	guard.Returned()
	return out, err
}

// placeOf describes a function by its name and location: "shop.slim (shop/slim.go:12)".
func placeOf(f any) string {
	value := reflect.ValueOf(f)
	if value.Kind() != reflect.Func || value.IsNil() {
		return "unknown place"
	}
	fn := runtime.FuncForPC(value.Pointer())
	if fn == nil {
		return "unknown place"
	}
	file, line := fn.FileLine(fn.Entry())
	return fmt.Sprintf("%s (%s/%s:%d)", path.Base(fn.Name()), path.Base(path.Dir(file)), path.Base(file), line)
}

// knownObjects records the known objects that a source has been given and may return, possibly more than
// once. An object in the record was already transformed and is in use elsewhere. Looking it up again would
// not identify it, because the known object for its key may have changed. The references are weak, because
// watches are long-lived and most of the objects are never returned.
type knownObjects struct {
	known wire.Cached

	mu    sync.Mutex                      // guards given; never held while calling other code
	given map[uint64][]weak.Pointer[byte] // indexed by a hash of the key rather than the key itself, to save memory
}

// seed is the hash seed.
var seed = maphash.MakeSeed()

// lookup replaces Request.Known. It records each object it returns.
func (l *knownObjects) lookup(key object.Key) (object.Head, bool) {
	o, ok := l.known(key)
	where := pointer(o)
	if !ok || where == nil {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given == nil {
		l.given = make(map[uint64][]weak.Pointer[byte])
	}
	hash, at := maphash.Comparable(seed, object.KeyOf(o)), weak.Make(where)
	if n := len(l.given[hash]); n >= 4 && n&(n-1) == 0 { // occasionally, in case every event is looked up
		l.given[hash] = slices.DeleteFunc(l.given[hash], func(given weak.Pointer[byte]) bool { return given.Value() == nil })
	}
	if !slices.Contains(l.given[hash], at) {
		l.given[hash] = append(l.given[hash], at)
	}
	return o, true
}

// gave reports whether lookup returned o.
func (l *knownObjects) gave(o object.Head) bool {
	at := pointer(o)
	if at == nil {
		return false
	}
	hash := maphash.Comparable(seed, object.KeyOf(o))
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.given[hash], func(given weak.Pointer[byte]) bool { return given.Value() == at })
}

// pointer returns an object's address, which identifies it, or nil if it is not a pointer.
func pointer(o any) *byte {
	if v := reflect.ValueOf(o); v.Kind() == reflect.Pointer {
		return (*byte)(v.UnsafePointer())
	}
	return nil
}
