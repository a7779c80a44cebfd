package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	gc "runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// listing is a source that lists its elements and watches forever.
type listing[T object.Object] []T

func (l listing[T]) Describe() source.Description { return source.Description{Name: "things"} }

func (l listing[T]) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "10"}, Items: func(yield func(object.Head, error) bool) {
		for _, o := range l {
			if !yield(o, nil) {
				return
			}
		}
	}}
}

func (l listing[T]) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(func(wire.Event[object.Head], error) bool) { <-ctx.Done() }, nil
}

func podOf(n, rv int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: strconv.Itoa(n), UID: "u", ResourceVersion: strconv.Itoa(rv)}}
}

func both(t *testing.T, f func(t *testing.T, of Store)) {
	for _, of := range []Store{Whole, Packed} {
		t.Run(of.String(), func(t *testing.T) { f(t, of) })
	}
}

// A handler that modifies the new object of an update is detected, however long ago the old one was
// read.
func TestL16_ChangedUpdateIsReported(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			w := newTwin(t, of)
			busy := make(chan struct{})
			w.AddHandlerWith(HandlerFuncs[*corev1.Pod]{Update: func(_ context.Context, old, new *corev1.Pod) error {
				if new.Name == "1" {
					<-busy
				}
				if new.Name == "0" {
					new.Spec.NodeName = "mine"
				}
				return nil
			}}, HandlerOptions{Name: "culprit"})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			synctest.Wait()
			for n := range 100 {
				p := podOf(n, 2+n)
				w.apply([]deltafifo.Delta{{Type: deltafifo.Updated, Key: object.KeyOf(p), Object: p}})
			}
			synctest.Wait()
			for n := range 2 {
				p := podOf(1-n, 1000+n)
				w.apply([]deltafifo.Delta{{Type: deltafifo.Updated, Key: object.KeyOf(p), Object: p}})
				synctest.Wait()
			}
			gc.GC() // while the handler is busy
			gc.GC()
			close(busy)
			synctest.Wait()
			time.Sleep(61 * time.Minute)
			synctest.Wait()
			f := w.Status().Failure
			cancel()
			require.NoError(t, <-ended)
			require.NotNil(t, f)
			require.Contains(t, f.Handler, "culprit")
		})
	})
}

// An object that a packed cache keeps whole can be modified like any other, and that is detected.
func TestL16_ChangedKeptObjectIsReported(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			w := newTwin(t, of)
			w.AddHandlerWith(HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
				e.Object.Spec.NodeName = "mine"
				return nil
			}), HandlerOptions{Name: "culprit"})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			synctest.Wait()
			p := podOf(0, 2)
			p.CreationTimestamp = metav1.NewTime(time.Unix(5, 5)) // of which bytes keep no fraction
			w.apply([]deltafifo.Delta{{Type: deltafifo.Added, Key: object.KeyOf(p), Object: p}})
			synctest.Wait()
			s := w.Status()
			cancel()
			require.NoError(t, <-ended)
			require.ErrorContains(t, s.Failure, ".Spec.NodeName")
			require.Contains(t, s.Failure.Handler, "culprit")
			if of == Packed {
				require.Equal(t, 1, s.Packed.Kept)
			}
		})
	})
}

// The detector does not keep removed objects.
func TestDetectorForgetsDeletedObjects(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			w := newTwin(t, of)
			w.AddHandler(HandlerFunc[*corev1.Pod](func(context.Context, Event[*corev1.Pod]) error { return nil }))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			synctest.Wait()
			for n := range 100 {
				p := podOf(n, 2+2*n)
				w.apply([]deltafifo.Delta{{Type: deltafifo.Updated, Key: object.KeyOf(p), Object: p}})
				synctest.Wait()
				p = podOf(n, 3+2*n)
				w.apply([]deltafifo.Delta{{Type: deltafifo.Deleted, Key: object.KeyOf(p), Object: p}})
				synctest.Wait()
			}
			time.Sleep(61 * time.Minute)
			synctest.Wait()
			require.Zero(t, w.Cache().Len())
			held := len(w.core.(*core).mutations.watched)
			cancel()
			require.NoError(t, <-ended)
			require.Zero(t, held)
		})
	})
}

// shape is a type that JSON can encode but not decode.
type shape interface{ Area() int }

type square struct{ Side int }

func (s square) Area() int { return s.Side * s.Side }

type drawing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Shape             shape `json:"shape,omitempty"`
}

func (d *drawing) DeepCopyObject() runtime.Object { c := *d; return &c }

func drawn() *drawing {
	return &drawing{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "0", UID: "u", ResourceVersion: "3"}, Shape: square{2}}
}

// An object that cannot be opened is reported without locks: the hook may read the informer.
func TestHookMayReadTheCacheWhenAnIndexCannotOpen(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		var i *Informer[*drawing]
		i = New[*drawing](listing[*drawing]{drawn()}, Options{Store: of, Initial: reflector.List, OnError: func(context.Context, *failure.Failure) failure.Verdict {
			_ = i.Status()
			_ = i.Cache().RV()
			return failure.Retry
		}})
		AddIndex(i, "area", func(d *drawing) []int { return []int{d.Shape.Area()} })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = i.Run(ctx) }()
		done := make(chan error, 1)
		go func() {
			wait, stop := context.WithTimeout(ctx, 2*time.Second)
			defer stop()
			err := i.WaitForSync(wait)
			_ = i.Cache().Len()
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				require.Contains(t, err.Error(), "a/0")
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it hangs")
		}
	})
}

// Objects that could not be recovered after packing are rejected, with their key (L21, L22).
func TestC01_ObjectsThatCannotBeDecodedAreRefused(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			i := New[*drawing](listing[*drawing]{drawn()}, Options{Store: of, Initial: reflector.List})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- i.Run(ctx) }()
			wait, stop := context.WithTimeout(ctx, time.Minute*3)
			err := i.WaitForSync(wait)
			stop()
			d, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "0"})
			cancel()
			require.NoError(t, <-ended)
			if err != nil {
				require.ErrorContains(t, err, "a/0")
				return
			}
			require.True(t, ok, "synced, and the object is not there")
			require.Equal(t, 4, d.Shape.Area())
		})
	})
}

// A standalone informer shares nothing between objects if its source shares nothing.
func TestPackedSharesNothingByDefault(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			var all listing[*corev1.Pod]
			for n := range 6 {
				p := podOf(n, 2)
				p.Annotations = map[string]string{"some annotation": strings.Repeat("long text", 10)}
				p.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "ONE", Value: "1"}, {Name: "TWO", Value: "2"}, {Name: "THREE", Value: "3"}}}}
				all = append(all, p)
			}
			i := New[*corev1.Pod](all, Options{Store: of, Initial: reflector.List})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- i.Run(ctx) }()
			require.NoError(t, i.WaitForSync(ctx))
			var got []*corev1.Pod
			for p := range i.Cache().All() {
				got = append(got, p)
			}
			for _, p := range got {
				p.Spec.Containers[0].Env[0].Value += p.Name // against L16
			}
			cancel()
			require.NoError(t, <-ended)
			for _, p := range got {
				require.Equal(t, "1"+p.Name, p.Spec.Containers[0].Env[0].Value)
			}
		})
	})
}

// Whatever a source yields instead of an object is reported in the same way.
func TestC01_NilObjects(t *testing.T) {
	said := map[Store]string{}
	for _, of := range []Store{Whole, Packed} {
		synctest.Test(t, func(t *testing.T) {
			for n, item := range []object.Object{nil, (*corev1.Pod)(nil)} {
				i := New[object.Object](listing[object.Object]{podOf(0, 2), item}, Options{Store: of, Initial: reflector.List})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				wait, stop := context.WithTimeout(ctx, time.Second)
				err := i.WaitForSync(wait)
				stop()
				cancel()
				reason, _, _ := strings.Cut(err.Error(), " (") // the number of attempts is random
				said[of] += fmt.Sprintln(n, reason, <-ended)
			}
		})
	}
	require.Equal(t, said[Whole], said[Packed])
}

// touchy has a DeepCopyObject that panics once.
type touchy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

var touched bool

func (d *touchy) DeepCopyObject() runtime.Object {
	if !touched {
		touched = true
		panic("touched")
	}
	c := *d
	return &c
}

// A copy that panics leaves no lock behind.
func TestPanickingCopyLeavesNoLock(t *testing.T) {
	touched = false
	o := &touchy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "0", UID: "u", ResourceVersion: "3"}}
	i := New[*touchy](listing[*touchy]{o}, Options{Store: Packed, Initial: reflector.List, DetectMutations: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = i.Run(ctx) }()
	require.NoError(t, i.WaitForSync(ctx))
	done := make(chan error, 1)
	go func() {
		look := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = errors.New("panic")
				}
			}()
			i.Cache().Get(object.Key{Namespace: "a", Name: "0"})
			return nil
		}
		_ = look()
		done <- look()
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(3 * time.Second):
		t.Fatal("it hangs")
	}
}

// lender is a source that looks up each object, and reuses only those of the same version, each as
// often as told.
type lender struct {
	listing[*corev1.Pod]
	times int
	midst func() // called when all but the last were yielded
}

func (lender) Describe() source.Description { return source.Description{Reuses: true} }

func (l lender) List(_ context.Context, req source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "10"}, Items: func(yield func(object.Head, error) bool) {
		for n, o := range l.listing {
			if have, ok := req.Known(object.KeyOf(o)); ok && have.GetResourceVersion() == o.ResourceVersion && have.GetUID() == o.UID {
				o = have.(*corev1.Pod)
			}
			if n == len(l.listing)-1 && l.midst != nil {
				l.midst()
			}
			for range l.times {
				if !yield(o, nil) {
					return
				}
			}
		}
	}}
}

func heap() int {
	for range 4 {
		gc.GC()
	}
	var m gc.MemStats
	gc.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// While a list in which everything has changed is read, only the new objects are held.
func TestAListKeepsNoKnownObjectThatHasChanged(t *testing.T) {
	const many = 20_000
	packer := wire.NewPacker(nil)
	var old listing[*corev1.Pod]
	var have = map[object.Key]object.Head{}
	for n := range many {
		p := podOf(n, 2)
		packed, err := packer.Pack(p)
		require.NoError(t, err)
		have[object.KeyOf(p)] = packed
		old = append(old, podOf(n, 3))
	}
	before, during := heap(), 0
	from := source.Complete(lender{listing: old, times: 1, midst: func() { during = heap() }})
	list := from.List(t.Context(), source.Request{Packer: packer, Known: func(key object.Key) (object.Head, bool) {
		p, ok := have[key]
		return p, ok
	}})
	fresh := make([]object.Head, 0, many)
	for p, err := range list.Items {
		require.NoError(t, err)
		fresh = append(fresh, p)
	}
	t.Logf("%d bytes each during the list, %d after", (during-before)/many, (heap()-before)/many)
	require.Less(t, (during-before)/many, 500)
	gc.KeepAlive(fresh)
	gc.KeepAlive(have)
	gc.KeepAlive(old)
}

// A source may return a known object more than once.
func TestC01_AKnownObjectMayComeBackTwice(t *testing.T) {
	packer := wire.NewPacker(nil)
	p := podOf(0, 2)
	p.Spec.NodeName = "n"
	packed, err := packer.Pack(p)
	require.NoError(t, err)
	from := source.Complete(lender{listing: listing[*corev1.Pod]{podOf(0, 2)}, times: 2})
	list := from.List(t.Context(), source.Request{Packer: packer, Known: func(object.Key) (object.Head, bool) {
		return packed, true
	}})
	for o, err := range list.Items {
		require.NoError(t, err)
		opened, err := packedOf(o).Open()
		require.NoError(t, err)
		require.Equal(t, "n", opened.(*corev1.Pod).Spec.NodeName)
	}
}

// A value that many objects have is stored once.
func TestAnIndexHoldsACommonValueOnce(t *testing.T) {
	used := map[Store]int{}
	both(t, func(t *testing.T, of Store) {
		w := newTwinWithout(of)
		for n := range 2000 {
			p := podOf(n, 2)
			p.Annotations = map[string]string{"about": strings.Repeat("long ", 400)}
			w.apply([]deltafifo.Delta{{Type: deltafifo.Updated, Key: object.KeyOf(p), Object: p}})
		}
		before := heap()
		index := AddIndex(w.Informer, "about", func(p *corev1.Pod) []string { return []string{p.Annotations["about"]} })
		used[of] = (heap() - before) / 2000
		t.Logf("%d bytes an object", used[of])
		gc.KeepAlive(index)
		gc.KeepAlive(w)
	})
	require.Less(t, used[Packed], used[Whole]+500)
}

func newTwinWithout(of Store) *twin {
	w := &twin{Informer: New[*corev1.Pod](empty{}, Options{Store: of, Initial: reflector.List})}
	if of == Whole {
		w.apply = w.core.(*core).handleDeltas
		return w
	}
	w.apply = func(deltas []deltafifo.Delta) {
		for _, d := range deltas {
			p, err := w.core.(*core).packing.packer.Pack(d.Object.(*corev1.Pod))
			if err != nil {
				panic(err)
			}
			w.core.(*core).handleDeltas([]deltafifo.Delta{{Type: d.Type, Key: d.Key, Object: p}})
		}
	}
	return w
}

// Modifying all objects produces a few reports, the last of which counts the rest.
func TestL16_ManyChangedObjectsMakeFewReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 50
		var pods listing[*corev1.Pod]
		for n := range objects {
			pods = append(pods, podOf(n, 1))
		}
		reports, told := 0, 0
		i := New[*corev1.Pod](pods, Options{Initial: reflector.List, DetectMutations: time.Minute, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			reports++
			told += 1 + f.Others
			return failure.Retry
		}})
		i.AddHandler(HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
			if e.Object.Name == pods[objects-1].Name {
				for _, p := range pods {
					p.Spec.NodeName = "mine"
				}
			}
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		require.NoError(t, i.WaitForSync(ctx))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1+reportsPerSecond+1, reports, "the first names the handler")
		require.Equal(t, objects, told)
		cancel()
		require.NoError(t, wait())
	})
}
