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

// Sentinels of the transform phase.
var (
	// ErrNilTransform: a transform returned nil without an error.
	ErrNilTransform = errors.New("the transform returned nil; return the object, or an error")
	// ErrTransformKey: a transform gave an object another namespace or name.
	ErrTransformKey = errors.New("the transform changed namespace or name; it may change anything else")
)

// TransformError says on which object a transform failed.
type TransformError struct {
	Transform string // its name and file:line
	Key       object.Key
	Err       error
}

// Error names the object and the cause.
func (e *TransformError) Error() string {
	return fmt.Sprintf("transform %s: %v", object.FormatKey(e.Key), e.Err)
}

// Unwrap returns the cause.
func (e *TransformError) Unwrap() error { return e.Err }

// Transformed returns a source whose objects have gone through transform, to
// make them smaller for example. The function owns the object that it is given
// and may change it in place, which is why Transformed panics where from shares parts
// between its objects (see rest.Resource.Sharing). An error, a panic, a nil result or another key
// ends the list or watch with a *TransformError: a reflector then does not
// count the change as seen and asks for it again after a back-off. UID and
// resource version are put back where transform removed them. Bookmarks do not
// pass through it, nor does what the source takes back as known: that has been
// transformed before.
func Transformed[T object.Object](from source.ListerWatcher, transform func(T) (T, error)) source.ListerWatcher {
	return newTransformed(from, onObjects(transform), transform)
}

// TransformedBy is Transformed for a transform that calls a function of somebody
// else's, whose name and place stand in a TransformError.
func TransformedBy[T object.Object](from source.ListerWatcher, transform func(T) (T, error), calls any) source.ListerWatcher {
	return newTransformed(from, onObjects(transform), calls)
}

// onObjects returns a transform of any objects, which fails for those that are no T. It is nil if
// transform is.
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

// newTransformed panics with the place of the call of its caller if there is nothing to transform, or
// if it must not be transformed.
func newTransformed(from source.ListerWatcher, transform func(object.Object) (object.Object, error), calls any) *transformed {
	if from == nil || transform == nil {
		panic(failure.Place(2) + ": a transformed source needs a source and a function, and one of them is nil")
	}
	if d := source.Describe(from); d.Pool != nil {
		panic(failure.Place(2) + ": the objects of " + d.Name + " share parts, and a transform of one would change others: leave out Sharing")
	}
	return &transformed{source: source.Complete(from), transform: transform, place: placeOf(calls)}
}

// transformed does all of a request itself but pack. It transforms wanted objects alone.
type transformed struct {
	source    source.ListerWatcher
	transform func(object.Object) (object.Object, error)
	place     string // where transform stands
}

// Describe implements source.ListerWatcher.
func (t *transformed) Describe() source.Description {
	d := source.Describe(t.source)
	d.Altered, d.Packs = true, false
	return d
}

// trackKnown has the request note the known objects that the source is given.
func trackKnown(req *source.Request) *knownObjects {
	known := &knownObjects{known: req.Known}
	if req.Known != nil {
		req.Known = known.lookup
	}
	return known
}

// List lists the source and transforms each item.
func (t *transformed) List(ctx context.Context, req source.Request) source.List[object.Head] {
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

// Watch watches the source and transforms the object of each change.
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
		return head, nil // what the source did wrong is not the transform's to say
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
		out = out.DeepCopyObject().(object.Object) // it may be one that was returned before, and is in use
	}
	if out.GetUID() != uid {
		out.SetUID(uid)
	}
	if out.GetResourceVersion() != rv {
		out.SetResourceVersion(rv)
	}
	return out, nil
}

// call calls the transform. A Goexit cannot be returned from here: it ends the goroutine.
// It becomes a panic, so that who called the source hears of the transform and not of
// the source alone.
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

// placeOf names a function by where it stands: "shop.slim (shop/slim.go:12)".
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

// knownObjects notes the known objects that a source was given and may return, more than once. A
// returned one has been transformed before and is in use elsewhere. A second look-up would not tell
// it from others: the known object of its key may have changed. They are held weakly, because a watch
// lasts and the source never returns most of them.
type knownObjects struct {
	known wire.Cached

	mu    sync.Mutex                      // guards given; nothing is called while it is held
	given map[uint64][]weak.Pointer[byte] // by the hash of the key, whose text would hold memory
}

// seed is that of the hashes.
var seed = maphash.MakeSeed()

// lookup is the known function. It notes each object that it returns.
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
	if n := len(l.given[hash]); n >= 4 && n&(n-1) == 0 { // now and then, for those who ask of every event
		l.given[hash] = slices.DeleteFunc(l.given[hash], func(given weak.Pointer[byte]) bool { return given.Value() == nil })
	}
	if !slices.Contains(l.given[hash], at) {
		l.given[hash] = append(l.given[hash], at)
	}
	return o, true
}

// gave reports whether lookup has returned o.
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

// pointer is where an object lies, which tells it from all others. It is nil where the object is
// no pointer.
func pointer(o any) *byte {
	if v := reflect.ValueOf(o); v.Kind() == reflect.Pointer {
		return (*byte)(v.UnsafePointer())
	}
	return nil
}
