package sharedinformer

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// stubborn is a source with one object in each namespace. Each list has a later version; the watch
// of all namespaces delivers an earlier one when it is released, however long ago it was cancelled.
type stubborn struct {
	lists *atomic.Int64
	let   chan struct{}
}

func (stubborn) Describe() source.Description {
	return source.Description{Name: "things", Narrows: true}
}

func (s stubborn) List(_ context.Context, req source.Request) source.List[object.Head] {
	version := int(s.lists.Add(10))
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: strconv.Itoa(version)}, Items: func(yield func(object.Head, error) bool) {
		for _, namespace := range []string{"bank", "shop"} {
			if req.Namespace == metav1.NamespaceAll || req.Namespace == namespace {
				if !yield(inNamespace(namespace, version), nil) {
					return
				}
			}
		}
	}}
}

func (s stubborn) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		if req.Namespace != metav1.NamespaceAll {
			<-ctx.Done()
			return
		}
		<-s.let
		if yield(wire.Event[object.Head]{Type: watch.Modified, Object: inNamespace("shop", 15)}, nil) {
			yield(wire.Event[object.Head]{Type: watch.Added, Object: inNamespace("bank", 16)}, nil)
		}
	}, nil
}

func inNamespace(namespace string, version int) partial {
	o := thing("x", 1, version)
	o.Namespace = namespace
	return o
}

// The last deltas of a removed feed come before the list of the next one, and removed objects are
// not delivered again.
func TestL01_RunWaitsForASlowFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := stubborn{lists: new(atomic.Int64), let: make(chan struct{})}
		i := New[partial](source, Options{Initial: reflector.List, Namespaces: []string{metav1.NamespaceAll}})
		var heard []string
		i.AddHandler(HandlerFunc[partial](func(_ context.Context, e Event[partial]) error {
			heard = append(heard, e.Type.String()+" "+e.Object.Namespace+"@"+e.Object.ResourceVersion)
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		require.NoError(t, i.WaitForSync(ctx))
		synctest.Wait() // it watches
		require.Equal(t, []string{"add bank@10", "add shop@10"}, heard)
		heard = nil

		require.NoError(t, i.SetNamespaces([]string{"mail", "shop"}))
		require.NoError(t, i.SetNamespaces([]string{"mail", "shop", "web"})) // nothing goes
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 10, source.lists.Load())
		require.False(t, i.HasSynced())
		require.Empty(t, heard)
		require.EqualError(t, i.Unsynced(), strings.Join([]string{
			"things in namespace mail: starts when the source has released things, which was cancelled",
			"things in namespace shop: starts when the source has released things, which was cancelled",
			"things in namespace web: starts when the source has released things, which was cancelled"}, "\n"))
		require.Equal(t, "things, which was cancelled", i.Status().Leaving)
		close(source.let)
		require.NoError(t, i.WaitForSync(ctx))
		shop, _ := i.Cache().Get(object.Key{Namespace: "shop", Name: "x"})
		require.ElementsMatch(t, []string{"update shop@15", "update bank@16", "delete bank@16", "update shop@" + shop.ResourceVersion}, heard)
		require.EqualValues(t, 40, source.lists.Load())
		require.Equal(t, "20", i.Cache().RV(), "the first of three lists")
		cancel()
		require.NoError(t, <-ended)
	})
}

// A transform that does not return delays the removal of its namespace, and with it the namespaces
// that stay and those that are added. The messages name it.
func TestTransformOfARemovedNamespace(t *testing.T) {
	for name, then := range map[string]struct {
		namespaces []string
		message    string
	}{
		"another comes": {[]string{"bank", "web"}, "things in namespace web: starts when"},
		"none comes":    {[]string{"bank"}, "things in namespace bank: has its list, but syncs only once"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				let := make(chan struct{})
				from := stubborn{lists: new(atomic.Int64), let: let}
				i := New[partial](reflector.Transformed[partial](from, func(o partial) (partial, error) {
					if o.Namespace == "shop" {
						<-let
					}
					return o, nil
				}), Options{Initial: reflector.List, Namespaces: []string{"bank", "shop"}})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				synctest.Wait() // the transform is called
				require.NoError(t, i.SetNamespaces(then.namespaces))
				time.Sleep(time.Minute)
				synctest.Wait()

				s := i.Status()
				require.Regexp(t, `^things in namespace shop, which was cancelled \(waiting for the transform sharedinformer\.\S+ \(\S+\), called on "?shop/x"?, for 1m0s\)$`, s.Leaving)
				require.EqualError(t, i.Unsynced(), then.message+" the source has released "+s.Leaving)
				late, stop := context.WithTimeout(ctx, time.Second)
				require.ErrorContains(t, i.WaitForSync(late), "the source has released things in namespace shop")
				stop()
				close(let)
				require.NoError(t, i.WaitForSync(ctx))
				require.Empty(t, i.Status().Leaving)
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// A list that arrived before its namespace was removed does not complete another one.
func TestL18_InitialSetOfARemovedNamespace(t *testing.T) {
	i := New[partial](stubborn{}, Options{Namespaces: []string{"shop"}})
	of := func(namespace string, rv int, items ...object.Head) deltafifo.Delta {
		d := deltafifo.Delta{Type: deltafifo.Replaced, Key: object.Key{Namespace: namespace}, Items: items, RV: strconv.Itoa(rv)}
		if f := feedNamed(i.core.(*core).feeds.all(), namespace); f != nil {
			d.Sender = f.sender
		}
		return d
	}
	trim := deltafifo.Delta{Type: deltafifo.Trim}
	apply := func(i *Informer[partial], deltas ...deltafifo.Delta) {
		i.core.(*core).handleDeltas(deltas)
	}
	require.NoError(t, i.SetNamespaces([]string{metav1.NamespaceAll}))
	apply(i, of("shop", 5, inNamespace("shop", 5)), trim)
	require.False(t, i.HasSynced())
	require.Empty(t, i.Cache().RV())
	require.Equal(t, 1, i.Cache().Len(), "it stays wanted")
	apply(i, of("", 7, inNamespace("shop", 5), inNamespace("bank", 6)))
	require.True(t, i.HasSynced())
	require.Equal(t, "7", i.Cache().RV())

	require.NoError(t, i.SetNamespaces([]string{"bank", "shop"}))
	apply(i, trim, of("bank", 8, inNamespace("bank", 6)), deltafifo.Delta{Type: deltafifo.Bookmark, RV: "30"})
	require.False(t, i.HasSynced())
	require.Equal(t, "8", i.Cache().NamespaceRV("bank"))
	require.Empty(t, i.Cache().NamespaceRV("shop"), "its feed has promised nothing")
	apply(i, of("shop", 9, inNamespace("shop", 5)))
	require.True(t, i.HasSynced())
	require.Equal(t, "8", i.Cache().RV())
}

// turncoat is a source whose kind has no namespaces until the test gives it some.
type turncoat struct {
	namespaced *atomic.Bool
	turned     chan struct{}
}

func (turncoat) Describe() source.Description {
	return source.Description{Name: "things", Narrows: true}
}

func (s turncoat) List(_ context.Context, req source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "5"}, Items: func(yield func(object.Head, error) bool) {
		switch {
		case !s.namespaced.Load() && req.Namespace != metav1.NamespaceAll:
			yield(nil, source.ErrNotNamespaced)
		case !s.namespaced.Load():
			yield(thing("x", 1, 4), nil)
		default:
			for _, namespace := range []string{"bank", "shop"} {
				if (req.Namespace == metav1.NamespaceAll || req.Namespace == namespace) && !yield(inNamespace(namespace, 5), nil) {
					return
				}
			}
		}
	}}
}

func (s turncoat) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		if s.namespaced.Load() {
			<-ctx.Done()
			return
		}
		select {
		case <-ctx.Done():
		case <-s.turned:
			gone := thing("x", 1, 4)
			gone.ResourceVersion = "6"
			if yield(wire.Event[object.Head]{Type: watch.Deleted, Object: gone}, nil) {
				yield(wire.Event[object.Head]{Type: watch.Added, Object: inNamespace("bank", 7)}, nil)
			}
		}
	}, nil
}

// A kind that comes back with namespaces is read in the wanted namespaces, and objects of other
// namespaces are not delivered.
func TestAKindThatComesBackWithNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		namespaces []string
		heard      []string
	}{
		"some": {[]string{"shop"}, []string{"add x", "delete x", "add shop/x"}},
		"all":  {nil, []string{"add x", "delete x", "add bank/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := turncoat{namespaced: new(atomic.Bool), turned: make(chan struct{})}
				i := New[partial](from, Options{Initial: reflector.List, Namespaces: c.namespaces})
				var heard []string
				i.AddHandler(HandlerFunc[partial](func(_ context.Context, e Event[partial]) error {
					heard = append(heard, e.Type.String()+" "+object.FormatKey(object.KeyOf(e.Object)))
					return nil
				}))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				require.NoError(t, i.WaitForSync(ctx))
				synctest.Wait() // it watches
				from.namespaced.Store(true)
				close(from.turned)
				time.Sleep(time.Minute)
				require.NoError(t, i.WaitForSync(ctx))
				synctest.Wait()
				require.Equal(t, c.heard, heard)
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// contrary is a source that lists objects with namespaces but, while refusing, claims for each
// namespace that the kind has none.
type contrary struct {
	turncoat
	refuses *atomic.Bool
	lists   *atomic.Int64
}

func (s contrary) List(ctx context.Context, req source.Request) source.List[object.Head] {
	s.lists.Add(1)
	list := s.turncoat.List(ctx, req)
	if items := list.Items; s.refuses.Load() && req.Namespace != metav1.NamespaceAll {
		list.Items = func(yield func(object.Head, error) bool) { yield(nil, source.ErrNotNamespaced) }
	} else {
		list.Items = func(yield func(object.Head, error) bool) {
			time.Sleep(50 * time.Millisecond)
			items(yield)
		}
	}
	return list
}

// Two feeds that replace each other make no more requests than one feed that fails. The informer
// recovers when the source is consistent again, either way.
func TestL19_ASourceThatContradictsItself(t *testing.T) {
	for name, namespaced := range map[string]bool{"with namespaces": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := contrary{turncoat{namespaced: new(atomic.Bool), turned: make(chan struct{})}, new(atomic.Bool), new(atomic.Int64)}
				from.refuses.Store(true)
				from.namespaced.Store(true)
				var failures atomic.Int64
				i := New[partial](from, Options{Initial: reflector.List, Namespaces: []string{"bank", "shop"}, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
					if errors.Is(f, source.ErrNotNamespaced) {
						failures.Add(1)
					}
					return failure.Retry
				}})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.False(t, i.HasSynced())
				require.Less(t, from.lists.Load(), int64(200), "two feeds with a back-off; without one there were 27,000")
				require.Positive(t, failures.Load(), "it says why")

				from.namespaced.Store(namespaced)
				from.refuses.Store(!namespaced)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				require.True(t, i.HasSynced())
				require.Equal(t, map[bool]int{true: 2, false: 1}[namespaced], i.Cache().Len())
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// An informer of all namespaces may be limited and extended again.
func TestNamespacesOfAnInformerOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := turncoat{namespaced: new(atomic.Bool), turned: make(chan struct{})}
		from.namespaced.Store(true)
		i := New[partial](from, Options{Initial: reflector.List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		for _, step := range []struct {
			set    []string
			cached int
		}{{nil, 2}, {[]string{"shop"}, 1}, {[]string{}, 0}, {[]string{"bank", metav1.NamespaceAll}, 2}} {
			require.NoError(t, i.SetNamespaces(step.set))
			require.NoError(t, i.WaitForSync(ctx))
			require.Equal(t, step.cached, i.Cache().Len(), "%q", step.set)
			require.Equal(t, NamespaceSet(step.set), i.Namespaces())
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

// deliberate is a source that takes a second to describe itself, and calls listed before each list.
type deliberate struct {
	stubborn
	listed func(namespace string)
}

func (d deliberate) Describe() source.Description {
	time.Sleep(time.Second)
	return d.stubborn.Describe()
}

func (d deliberate) List(ctx context.Context, req source.Request) source.List[object.Head] {
	d.listed(req.Namespace)
	return d.stubborn.List(ctx, req)
}

// If an informer listed a new namespace before another one watches it, a reconcile of one of its objects would read
// from a cache that lacks the namespace.
func TestInformersGetNamespacesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var informers []*Informer[partial]
		views := func() (each []View) {
			for _, i := range informers {
				each = append(each, i.View())
			}
			return each
		}
		var early atomic.Int64
		from := deliberate{stubborn{lists: new(atomic.Int64)}, func(namespace string) {
			for _, i := range informers {
				if !i.Watches(namespace) {
					early.Add(1)
				}
			}
		}}
		for range 3 {
			i := New[partial](from, Options{Initial: reflector.List, Namespaces: []string{"shop"}})
			informers = append(informers, i)
		}
		for _, i := range informers {
			defer runFor(t, i)()
			require.NoError(t, i.WaitForSync(t.Context()))
		}
		require.NoError(t, SetNamespaces(views(), []string{"bank", "shop"}))
		for _, i := range informers {
			require.NoError(t, i.WaitForSync(t.Context()))
			require.Equal(t, 2, i.Cache().Len())
		}
		require.Zero(t, early.Load())

		began, begin := from.lists.Load(), make(chan struct{})
		informers[0].core.setNamespaces([]string{"bank", "mail", "shop"}, begin)
		time.Sleep(time.Minute)
		require.Equal(t, began, from.lists.Load(), "the others do not watch it yet")
		require.ErrorContains(t, informers[0].Unsynced(), "in namespace mail: about to start")
		close(begin)
		require.NoError(t, SetNamespaces(views(), []string{"bank", "mail", "shop"}))
		require.NoError(t, informers[0].WaitForSync(t.Context()))

		// An informer that cannot be changed leaves the others as they were.
		require.ErrorContains(t, SetNamespaces(append(views(), New[partial](ofBank{new(atomic.Int64)}, Options{}).View()), []string{"shop"}), "does not reach namespace shop")
		require.ErrorContains(t, SetNamespaces([]View{informers[0].View(), nil}, []string{"shop"}), "not an informer")
		require.Equal(t, []string{"bank", "mail", "shop"}, informers[0].Namespaces())
	})
}

// An informer of no namespaces is complete, and waits for nothing.
func TestL18_NoNamespacesAreSyncedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := informerOf(newFixed(in("shop", "a", 5)), Options{Namespaces: []string{}})
		synced := 0
		r := i.AddHandlerWith(HandlerFuncs[partial]{}, HandlerOptions{OnSync: func() { synced++ }})
		require.False(t, i.HasSynced(), "it does not run")
		stop := runFor(t, i)
		require.NoError(t, i.WaitForSync(t.Context()))
		require.True(t, r.HasSynced())
		require.ErrorIs(t, i.WaitForRV(t.Context(), "5"), ErrNotWatched)
		require.False(t, i.Watches(""), "it does not contain cluster-scoped objects either")
		require.NoError(t, i.SetNamespaces([]string{"shop"}))
		require.True(t, i.Watches(""))
		require.NoError(t, i.WaitForSync(t.Context()))
		require.NoError(t, i.WaitForRV(t.Context(), "5"))
		require.NoError(t, i.SetNamespaces([]string{}))
		require.NoError(t, i.WaitForSync(t.Context()))
		require.Zero(t, i.Cache().Len())
		stop()
		stop = runFor(t, i)
		require.True(t, i.HasSynced())
		require.Equal(t, 1, synced)
		stop()
	})
}

// in returns an object of a namespace.
func in(namespace, name string, rv int) partial {
	o := thing(name, 7, rv)
	o.Namespace, o.UID = namespace, types.UID(namespace+name)
	return o
}

// The RV of the cache is the smallest RV of all feeds, even if the history of one feed went back.
func TestL13_HistoryGoesBackInOneNamespace(t *testing.T) {
	i := informerOf(part{newWorld()}, Options{Namespaces: []string{"a", "b"}})
	list := func(namespace string, rv int, anew bool) deltafifo.Delta {
		return deltafifo.Delta{Type: deltafifo.Replaced, Key: object.Key{Namespace: namespace}, Items: []object.Head{in(namespace, "x", rv)}, RV: strconv.Itoa(rv), NewHistory: anew}
	}
	i.core.(*core).handleDeltas([]deltafifo.Delta{list("a", 100, false), list("b", 90, false)})
	require.Equal(t, "90", i.Cache().RV())
	i.core.(*core).handleDeltas([]deltafifo.Delta{list("a", 50, true)})
	require.Equal(t, "50", i.Cache().NamespaceRV("a"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Error(t, i.WaitForRV(ctx, "60"), "which was written after the restore into a, whose cache is at 50")
	require.Equal(t, "50", i.Cache().RV())
}

// A list that reuses no known objects is also compared with a list that is not in the cache yet. Here, a
// list of all namespaces is queued before the list of the first namespace.
func TestL17_ObjectsInTwoListsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := informerOf(part{newWorld()}, Options{})
		var heard []string
		i.AddHandler(HandlerFunc[partial](func(_ context.Context, e Event[partial]) error {
			heard = append(heard, e.Type.String()+" "+e.Object.Name)
			return nil
		}))
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		i.core.(*core).handleDeltas([]deltafifo.Delta{
			{Type: deltafifo.Added, Key: object.Key{Namespace: "a", Name: "x"}, Object: in("a", "x", 5), RV: "5"},
			{Type: deltafifo.Replaced, Items: []object.Head{in("a", "x", 5)}, RV: "7"},
			{Type: deltafifo.Replaced, Key: object.Key{Namespace: "a"}, Items: []object.Head{in("a", "x", 5)}, RV: "8", NewHistory: true},
		})
		synctest.Wait()
		require.Equal(t, []string{"add x"}, heard)
	})
}

// ofBank is a source of one namespace that supports every part of a request, like the source of a
// rest.Resource. It reads whichever namespace is requested.
type ofBank struct{ asked *atomic.Int64 }

func (ofBank) Describe() source.Description {
	return source.Description{Name: "things in namespace bank", Namespace: "bank", Narrows: true, Reuses: true, Filters: true, Packs: true}
}

func (s ofBank) List(_ context.Context, req source.Request) source.List[object.Head] {
	s.asked.Add(1)
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "10"}, Items: func(yield func(object.Head, error) bool) {
		yield(inNamespace(req.Namespace, 5), nil)
	}}
}

func (s ofBank) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(func(wire.Event[object.Head], error) bool) { <-ctx.Done() }, nil
}

// A source of one namespace is never asked for another namespace, whoever would narrow the request.
func TestAnInformerOfANamespaceThatTheSourceDoesNotReach(t *testing.T) {
	for name, from := range map[string]func(source.ListerWatcher) source.ListerWatcher{
		"plain": func(s source.ListerWatcher) source.ListerWatcher { return s },
		"transformed": func(s source.ListerWatcher) source.ListerWatcher {
			return reflector.Transformed(s, func(p partial) (partial, error) { return p, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := new(atomic.Int64)
				i := New[partial](from(ofBank{asked}), Options{Initial: reflector.List, Namespaces: []string{"shop"}, SyncPatience: time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				defer func() { cancel(); <-ended }()
				require.ErrorContains(t, i.WaitForSync(ctx), "does not reach namespace shop")
				require.Zero(t, asked.Load())
				require.False(t, i.Watches("shop"))
				require.Zero(t, i.Cache().Len())
			})
		})
	}
}

// A name contains one namespace, even if the options have a name.
func TestNameIncludesTheOnlyNamespace(t *testing.T) {
	same := func(p partial) (partial, error) { return p, nil }
	from := reflector.Transformed[partial](ofBank{new(atomic.Int64)}, same)
	require.NotContains(t, New[partial](from, Options{Namespaces: []string{"shop"}}).Name(), "in namespace bank in namespace")
	require.Equal(t, "orders in namespace bank", New[partial](ofBank{new(atomic.Int64)}, Options{Name: "orders", Namespaces: []string{"bank"}}).Name())
}

// everywhere is a world that answers requests for one namespace with the objects of all.
type everywhere struct{ part }

func (e everywhere) List(ctx context.Context, req source.Request) source.List[object.Head] {
	req.Namespace = ""
	return e.part.List(ctx, req)
}

func (e everywhere) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	req.Namespace = ""
	return e.part.Watch(ctx, req)
}

func TestL21_AnObjectOfAnotherNamespaceIsRefused(t *testing.T) {
	for name, before := range map[string]int{"in a list": 20, "in a watch": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, rng := newWorld(), rand.New(rand.NewPCG(1, 1))
				for range before {
					w.change(rng)
				}
				i := New[partial](everywhere{part{w}}, Options{Initial: reflector.List, Namespaces: []string{"a"}})
				ctx, cancel := context.WithCancel(t.Context())
				wait, err := i.Start(ctx)
				require.NoError(t, err)
				for range 20 {
					synctest.Wait()
					w.change(rng)
				}
				synctest.Wait()
				for o := range i.Cache().All() {
					require.Equal(t, "a", o.Namespace)
				}
				require.ErrorContains(t, i.Status().Reflector.Failure, `when reading namespace "a"`)
				cancel()
				require.NoError(t, wait())
			})
		})
	}
}

func TestTheStatusInANamespace(t *testing.T) {
	for name, c := range map[string]struct{ namespaces, watched, others []string }{
		"several": {[]string{"bank", "shop"}, []string{"bank", "shop"}, []string{"mail", metav1.NamespaceAll}},
		"one":     {[]string{"shop"}, []string{"shop"}, []string{"bank", metav1.NamespaceAll}},
		"all":     {[]string{metav1.NamespaceAll}, []string{"shop", metav1.NamespaceAll}, nil},
		"none":    {[]string{}, nil, []string{"shop", metav1.NamespaceAll}},
	} {
		t.Run(name, func(t *testing.T) {
			i := New[partial](stubborn{}, Options{Namespaces: c.namespaces})
			for _, namespace := range c.watched {
				s, watched := i.StatusIn(namespace)
				require.True(t, watched, namespace)
				want := "things"
				if name != "all" {
					want += " in namespace " + namespace
				}
				require.Equal(t, want, s.Resource)
			}
			for _, namespace := range c.others {
				_, watched := i.StatusIn(namespace)
				require.False(t, watched, namespace)
				i.Reconnect(nil, namespace) // of no watch
			}
		})
	}
}
