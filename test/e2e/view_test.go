package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

// deadline is the time limit for a condition. On an idle machine, every condition here holds within
// seconds.
const deadline = time.Minute

// view is a handler that knows only the events it has received.
type view[T object.Object] struct {
	t     *testing.T
	cache func(object.Key) (T, bool)

	mu      sync.Mutex // guards the fields below
	known   map[object.Key]T
	counts  counts
	changed chan struct{} // closed and replaced with every call
}

// counts counts the calls of a view.
type counts struct{ initial, added, updated, deleted, unknown int }

// Handle checks a call against the earlier ones and the cache.
func (v *view[T]) Handle(_ context.Context, e sharedinformer.Event[T]) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := object.KeyOf(e.Object)
	last, known := v.known[key]
	switch e.Type {
	case sharedinformer.Add:
		if known {
			v.t.Errorf("add of %s, which is known", key)
		}
		v.counts.added++
		if e.Initial {
			v.counts.initial++
		}
		v.known[key] = e.Object
	case sharedinformer.Update:
		if !known || last.GetUID() != e.Object.GetUID() || any(last) != any(e.Old) || newer(last, e.Object) {
			v.t.Errorf("update of %s to %s %s from %s %s, last told of was %s %s (known %t)", key,
				e.Object.GetUID(), e.Object.GetResourceVersion(), e.Old.GetUID(), e.Old.GetResourceVersion(), uidOf(last, known), rvOf(last, known), known)
		}
		v.counts.updated++
		v.known[key] = e.Object
	case sharedinformer.Delete:
		if !known || last.GetUID() != e.Object.GetUID() {
			v.t.Errorf("delete of %s %s, last told of was %s (known %t)", key, e.Object.GetUID(), uidOf(last, known), known)
		}
		v.counts.deleted++
		if e.FinalStateUnknown {
			v.counts.unknown++
		}
		delete(v.known, key)
	default:
		v.t.Errorf("unexpected %s of %s", e.Type, key)
	}
	if now, ok := v.cache(key); ok && e.Type != sharedinformer.Delete && now.GetUID() == e.Object.GetUID() && newer(e.Object, now) {
		v.t.Errorf("%s of %s at %s, but the cache is at %s", e.Type, key, e.Object.GetResourceVersion(), now.GetResourceVersion())
	}
	close(v.changed)
	v.changed = make(chan struct{})
	return nil
}

func uidOf[T object.Object](o T, known bool) string {
	if !known {
		return "nothing"
	}
	return string(o.GetUID())
}

func rvOf[T object.Object](o T, known bool) string {
	if !known {
		return "nothing"
	}
	return o.GetResourceVersion()
}

// newer reports whether a is a later version than b.
func newer[T object.Object](a, b T) bool {
	order, err := object.CompareRV(a.GetResourceVersion(), b.GetResourceVersion())
	return err != nil || order > 0
}

// calls returns the counts so far.
func (v *view[T]) calls() counts {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.counts
}

// reads is a resource of a type.
type reads[T object.Object] interface {
	Source() source.ListerWatcher
	List(context.Context, metav1.ListOptions) source.List[T]
}

// follower is an informer under test with the view of one handler.
type follower[T object.Object] struct {
	*sharedinformer.Informer[T]
	*view[T]
	source reads[T]
	opts   sharedinformer.Options
	stop   func()
}

// follow starts an informer, which stops with the test.
func follow[T object.Object](t *testing.T, source reads[T], opts sharedinformer.Options) *follower[T] {
	t.Helper()
	f := prepare(t, source, opts)
	f.start()
	return f
}

// prepare returns an informer with a view that is not running yet.
func prepare[T object.Object](t *testing.T, source reads[T], opts sharedinformer.Options) *follower[T] {
	t.Helper()
	return attach(t, sharedinformer.New[T](source.Source(), opts), source, opts)
}

// attach adds a view to an informer that may belong to another follower.
func attach[T object.Object](t *testing.T, i *sharedinformer.Informer[T], source reads[T], opts sharedinformer.Options) *follower[T] {
	t.Helper()
	v := &view[T]{t: t, cache: i.Cache().Get, known: map[object.Key]T{}, changed: make(chan struct{})}
	i.AddHandlerWith(v, sharedinformer.HandlerOptions{Name: t.Name()})
	return &follower[T]{Informer: i, view: v, source: source, opts: opts, stop: func() {}}
}

// start runs the informer. stop ends it and waits.
func (f *follower[T]) start() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := f.Run(ctx); err != nil {
			f.t.Errorf("run: %v", err)
		}
	}()
	f.stop = sync.OnceFunc(func() { cancel(); <-ended })
	f.t.Cleanup(f.stop)
}

// sync waits until informer and view are synced.
func (f *follower[T]) sync() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), deadline)
	defer cancel()
	require.NoError(f.t, f.WaitForSync(ctx), "%s", f)
}

// await waits until wanted returns true for the objects of the view.
func (f *follower[T]) await(what string, wanted func(known map[object.Key]T) bool) {
	f.t.Helper()
	timeout := time.After(deadline)
	for {
		f.mu.Lock()
		ok, changed := wanted(f.known), f.changed
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			require.FailNow(f.t, "not in time: "+what, "%s", f)
		}
	}
}

// awaitLen waits until the view has n objects.
func (f *follower[T]) awaitLen(n int) {
	f.t.Helper()
	f.await(fmt.Sprintf("%d objects", n), func(known map[object.Key]T) bool { return len(known) == n })
}

// awaitStatus waits until wanted returns true for the informer's status. It polls, because changes
// of the counters are not signalled.
func (f *follower[T]) awaitStatus(what string, wanted func(sharedinformer.Status) bool) {
	f.t.Helper()
	poll(f.t, what, func() error {
		if !wanted(f.Status()) {
			return fmt.Errorf("%s", f)
		}
		return nil
	})
}

// poll waits for a condition that is not signalled.
func poll(t *testing.T, what string, attempt func() error) {
	t.Helper()
	timeout := time.After(deadline)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		err := attempt()
		if err == nil {
			return
		}
		select {
		case <-pause.C:
		case <-timeout:
			require.FailNow(t, "not in time: "+what, "%v", err)
		}
	}
}

// agree compares the view and the cache with a fresh list, once the view has received everything in
// the list. There must be no writes meanwhile.
func (f *follower[T]) agree() {
	f.t.Helper()
	want := f.fresh()
	f.await("view equals list", func(known map[object.Key]T) bool {
		return maps.EqualFunc(known, want, func(a, b T) bool { return a.GetResourceVersion() == b.GetResourceVersion() })
	})
	cached := map[object.Key]T{}
	for o := range f.Cache().All() {
		cached[object.KeyOf(o)] = o
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(f.t, difference(want, f.known), "view and list")
	require.Empty(f.t, difference(want, cached), "cache and list")
	for key, o := range cached {
		require.Equal(f.t, any(f.known[key]), any(o), "%s: view and cache share objects", key)
	}
}

// fresh lists the objects that the informer should have.
func (f *follower[T]) fresh() map[object.Key]T {
	f.t.Helper()
	opts := metav1.ListOptions{}
	if f.opts.LabelSelector != nil {
		opts.LabelSelector = f.opts.LabelSelector.String()
	}
	if f.opts.FieldSelector != nil {
		opts.FieldSelector = f.opts.FieldSelector.String()
	}
	return listAll(f.t, f.source, opts)
}

func listAll[T object.Object](t *testing.T, source reads[T], opts metav1.ListOptions) map[object.Key]T {
	t.Helper()
	all := map[object.Key]T{}
	for o, err := range source.List(t.Context(), opts).Items {
		require.NoError(t, err)
		all[object.KeyOf(o)] = o
	}
	return all
}

// difference returns the keys in which two sets differ, and how. Whether an object has its kind set
// depends on how it was read, and does not count.
func difference[T object.Object](want, got map[object.Key]T) []string {
	var d []string
	for key, w := range want {
		switch g, ok := got[key]; {
		case !ok:
			d = append(d, fmt.Sprintf("%s is missing", key))
		case !equality.Semantic.DeepEqual(bare(w), bare(g)):
			d = append(d, fmt.Sprintf("%s differs: want %v, got %v", key, w, g))
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			d = append(d, fmt.Sprintf("%s is too much", key))
		}
	}
	slices.Sort(d)
	return d[:min(len(d), 10)]
}

func bare[T object.Object](o T) any {
	c := o.DeepCopyObject()
	c.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return c
}

// String returns the status of the informer and the objects missing from the view.
func (f *follower[T]) String() string {
	var b strings.Builder
	s := f.Status()
	fmt.Fprintf(&b, "reflector: %+v\nsynced %t, rv %s, %d objects, queue %d, failure %v\n", s.Reflector, s.Synced, s.RV, s.Objects, s.QueueDepth, s.Failure)
	for _, h := range s.Handlers {
		fmt.Fprintf(&b, "handler: %+v\n", h)
	}
	fmt.Fprintf(&b, "calls: %+v\n", f.calls())
	return b.String()
}
