package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

func isWeb(h object.Head) bool { return h.GetLabels()["app"] == "web" }

// source.Filtered returns a ListerWatcher that delivers objects leaving the selection as Passed.
// The informer must drop them (L17).
func TestL17_PassedObjectsAreRemovedFromTheCache(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		for _, kind := range []watch.EventType{watch.Modified, watch.Deleted} {
			t.Run(string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					web, other := map[string]string{"app": "web"}, map[string]string{"app": "db"}
					from := &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", web)}, "10" }}
					i := New[podPtr](source.Filtered(from, isWeb), Options{Store: of, Initial: reflector.List})
					_, err := i.Start(t.Context())
					require.NoError(t, err)
					require.NoError(t, i.WaitForSync(t.Context()))
					from.events <- wire.Event[object.Head]{Type: kind, Object: podAt("x", "11", other)}
					require.NoError(t, i.WaitForRV(t.Context(), "11"))
					_, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "x"})
					require.False(t, ok, "the cache says that it is complete up to 11, and has what is not there any more")
				})
			})
		}
	})
}

// A late Passed event, such as a repeated one, must not break the informer.
func TestLatePassedEventDoesNotBreakTheInformer(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			web, other := map[string]string{"app": "web"}, map[string]string{"app": "db"}
			from := &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", web)}, "10" }}
			i := New[podPtr](source.Filtered(from, isWeb), Options{Store: of, Initial: reflector.List})
			_, err := i.Start(t.Context())
			require.NoError(t, err)
			require.NoError(t, i.WaitForSync(t.Context()))
			from.events <- wire.Event[object.Head]{Type: watch.Modified, Object: podAt("x", "9", other)} // sent again, as servers may
			synctest.Wait()
			require.Nil(t, i.Status().Failure)
		})
	})
}

// reusing is a plain source that reuses known objects and does not filter.
type reusing struct{ *fed }

func (reusing) Describe() source.Description { return source.Description{Reuses: true} }

func (r reusing) List(ctx context.Context, o source.Request) source.List[object.Head] {
	list := r.fed.List(ctx, o)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if o.Known != nil {
				if have, ok := o.Known(object.KeyOf(item)); ok && have.GetUID() == item.GetUID() && have.GetResourceVersion() == item.GetResourceVersion() {
					item = have
				}
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// A relist without changes delivers nothing, even if the cache is packed and its source reuses known
// objects. For this, the slot of a placeholder must be computed from the head of its packed object,
// which has the owner.
func TestC01_KnownObjectIsFilteredByItsWholeHead(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			yes := true
			pod := func() podPtr {
				o := podAt("x", "5", nil)
				o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "o", UID: "owner-a", Controller: &yes}}
				return o
			}
			key := shard.ByOwner()
			slot := shard.SlotOf(key.Hash(pod()), 64)
			require.NotEqual(t, slot, shard.SlotOf(shard.ByUID().Hash(pod()), 64))
			lists := 0
			from := reusing{&fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { lists++; return []podPtr{pod()}, "10" }}}
			i := New[podPtr](from, Options{Store: of, Initial: reflector.List, Shard: shard.Scope{Key: key, Share: shard.Ordinal(slot, 64)}})
			heard := map[EventType]int{}
			i.AddHandler(HandlerFunc[podPtr](func(_ context.Context, e Event[podPtr]) error { heard[e.Type]++; return nil }))
			_, err := i.Start(t.Context())
			require.NoError(t, err)
			require.NoError(t, i.WaitForSync(t.Context()))
			require.Equal(t, 1, i.Cache().Len())
			again := &failure.Failure{Phase: failure.PhaseCache, Err: errors.New("something has the reflector list again, such as an expired version")}
			if i.core.(*core).packing != nil {
				i.core.(*core).feeds.all()[0].reflector.Relist(again)
			} else {
				i.core.(*core).feeds.all()[0].reflector.Relist(again)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Greater(t, lists, 1, "it listed again")
			require.Equal(t, 1, i.Cache().Len(), "the object is still there, and still ours; heard %v", heard)
		})
	})
}

// moody is a source that describes itself at first, and panics later.
type moody struct {
	traced
	times *atomic.Int32
}

func (m moody) Describe() source.Description {
	if m.times.Add(1) > 3 {
		panic("moody")
	}
	return m.traced.Describe()
}

// A source that cannot describe itself is read anyway, or the error says why not.
func TestL22_SourceThatPanicsInItsDescription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", "x", func(partial) {})
		i := informerOf(moody{traced{part{w}}, new(atomic.Int32)}, Options{
			Namespaces: []string{"a"}, Snapshot: snapshot.In(t.TempDir(), snapshot.Options{}),
		})
		defer runFor(t, i)()
		time.Sleep(5 * time.Second)
		s := i.Status()
		require.True(t, i.HasSynced() || s.Failure != nil || s.Namespaces[0].Failure != nil, "not synced, and nothing is wrong: %+v", i.Unsynced())
	})
}

// late reports that the kind has no namespaces when it is read, as a list always does.
type late struct{ part }

func (l late) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if o.Namespace == "" {
		events, err := l.part.Watch(ctx, o)
		return func(yield func(wire.Event[object.Head], error) bool) {
			end := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "10", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
			if yield(wire.Event[object.Head]{Type: "BOOKMARK", Object: end}, nil) {
				events(yield)
			}
		}, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		yield(wire.Event[object.Head]{}, fmt.Errorf("things are %w", source.ErrNotNamespaced))
	}, nil
}

// A watch may fail with ErrNotNamespaced at any time. All objects of the kind are then cached.
func TestAWatchThatFailsWithNotNamespacedWhenItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := New[partial](late{part{newWorld()}}, Options{Namespaces: []string{"a"}, Initial: reflector.WatchList})
		defer runFor(t, i)()
		time.Sleep(10 * time.Minute)
		require.True(t, i.HasSynced(), "%v", i.Unsynced())
	})
}

// nilItem yields a nil object, in a list or in a watch.
type nilItem struct{ *fed }

func (nilItem) Describe() source.Description { return source.Description{Narrows: true} }

func (z nilItem) List(ctx context.Context, req source.Request) source.List[object.Head] {
	if req.Namespace == "" {
		return z.fed.List(ctx, req)
	}
	return source.List[object.Head]{Meta: new(metav1.ListMeta), Items: func(yield func(object.Head, error) bool) {
		yield(nil, source.ErrNotNamespaced)
	}}
}

// reflector.ErrNoObject reports that a source yielded nil, whatever wraps the source.
func TestANilObjectIsNamedInACacheOfAKindWithoutNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &fed{list: func() ([]podPtr, string) { return []podPtr{nil}, "10" }}
		plain := New[podPtr](from, Options{Initial: reflector.List})
		scoped := New[podPtr](nilItem{from}, Options{Initial: reflector.List, Namespaces: []string{"a"}})
		for _, i := range []*Informer[podPtr]{plain, scoped} {
			_, err := i.Start(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Minute)
			require.ErrorIs(t, i.Unsynced(), reflector.ErrNoObject)
		}
	})
}

// noMeta returns a list without metadata.
type noMeta struct{ *fed }

func (z noMeta) List(ctx context.Context, o source.Request) source.List[object.Head] {
	list := z.fed.List(ctx, o)
	list.Meta = nil
	return list
}

// A list without metadata has no resource version. A resume reports the same error.
func TestAListWithoutMetadataHasNoVersion(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			i := New[podPtr](noMeta{&fed{list: func() ([]podPtr, string) { return nil, "10" }}}, Options{Store: of, Initial: reflector.List})
			_, err := i.Start(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Minute)
			require.ErrorIs(t, i.Unsynced(), reflector.ErrNoRV)
		})
	})
}

type podPtr = *corev1.Pod

// fed is a plain source with a list from a function and a watch from a channel.
type fed struct {
	list   func() ([]podPtr, string)
	events chan wire.Event[object.Head]
}

func (s *fed) Describe() source.Description { return source.Description{Name: "things"} }

func (s *fed) List(context.Context, source.Request) source.List[object.Head] {
	meta := new(metav1.ListMeta)
	return source.List[object.Head]{Meta: meta, Items: func(yield func(object.Head, error) bool) {
		items, rv := s.list()
		for _, o := range items {
			if !yield(o, nil) {
				return
			}
		}
		meta.ResourceVersion = rv
	}}
}

func (s *fed) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		for {
			select {
			case e := <-s.events:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

func podAt(name, rv string, labels map[string]string) podPtr {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("u-" + name), ResourceVersion: rv, Labels: labels}}
}

// labelled is a wrapper as described in source.ListerWatcher. It embeds its source, passes the request
// on, inspects the objects, and declares that. It leaves out objects without a label.
type labelled struct{ source.ListerWatcher }

func (l labelled) Describe() source.Description {
	return l.ListerWatcher.Describe().Plain()
}

func (l labelled) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := l.ListerWatcher.List(ctx, req)
	return source.List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		for o, err := range list.Items {
			if err == nil && o.GetLabels()["app"] == "" {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}}
}

func (l labelled) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := l.ListerWatcher.Watch(ctx, req)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err == nil && e.Type != watch.Bookmark && e.Object.GetLabels()["app"] == "" {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

// A relist without changes delivers nothing, even through a wrapper that inspects the objects. The
// wrapper sees each object completely.
func TestC01_AWrapperSeesEachObjectWhole(t *testing.T) {
	stripped := func(from source.ListerWatcher) source.ListerWatcher {
		return reflector.Transformed(from, func(p podPtr) (podPtr, error) {
			p.Labels = nil
			return p, nil
		})
	}
	for name, over := range map[string]func(source.ListerWatcher) source.ListerWatcher{
		"alone":             func(from source.ListerWatcher) source.ListerWatcher { return from },
		"below a transform": stripped,
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, of Store) {
				synctest.Test(t, func(t *testing.T) {
					lists := 0
					from := reusing{&fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) {
						lists++
						return []podPtr{podAt("x", "5", map[string]string{"app": "shop"}), podAt("y", "5", nil)}, "10"
					}}}
					i := New[podPtr](over(labelled{from}), Options{Store: of, Initial: reflector.List})
					heard := map[EventType]int{}
					i.AddHandler(HandlerFunc[podPtr](func(_ context.Context, e Event[podPtr]) error { heard[e.Type]++; return nil }))
					_, err := i.Start(t.Context())
					require.NoError(t, err)
					require.NoError(t, i.WaitForSync(t.Context()))
					require.Equal(t, 1, i.Cache().Len())
					i.core.(*core).feeds.all()[0].reflector.Relist(&failure.Failure{Phase: failure.PhaseCache, Err: errors.New("something has the reflector list again")})
					time.Sleep(time.Minute)
					synctest.Wait()
					require.Greater(t, lists, 1, "it listed again")
					require.Equal(t, map[EventType]int{Add: 1}, heard)
					require.Equal(t, 1, i.Cache().Len())
				})
			})
		})
	}
}

// marking is a wrapper that modifies the objects, as Transformed does. It owns the objects of its
// source.
type marking struct{ source.ListerWatcher }

func (m marking) Describe() source.Description {
	return m.ListerWatcher.Describe().Plain()
}

func (m marking) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := m.ListerWatcher.List(ctx, req)
	return source.List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		for o, err := range list.Items {
			if err == nil {
				p := o.(podPtr)
				p.Finalizers = append(p.Finalizers, "marked")
			}
			if !yield(o, err) {
				return
			}
		}
	}}
}

// A wrapper modifies an object once, and never one from the cache (L16).
func TestL16_AWrapperThatAltersObjectsAltersNoneOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		from := reusing{&fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) {
			lists++
			return []podPtr{podAt("x", "5", nil)}, "10"
		}}}
		i := New[podPtr](marking{from}, Options{Initial: reflector.List})
		_, err := i.Start(t.Context())
		require.NoError(t, err)
		require.NoError(t, i.WaitForSync(t.Context()))
		cached, _ := i.Cache().Get(object.Key{Namespace: "a", Name: "x"})
		i.core.(*core).feeds.all()[0].reflector.Relist(&failure.Failure{Phase: failure.PhaseCache, Err: errors.New("something has the reflector list again")})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Greater(t, lists, 1, "it listed again")
		require.Equal(t, []string{"marked"}, cached.Finalizers)
	})
}

// Wanted sees the head of the object as the server has it, even if a transform has removed the
// label that it selects by.
func TestC01_KnownObjectIsFilteredAsTheServerHasIt(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			lists := 0
			from := reusing{&fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) {
				lists++
				return []podPtr{podAt("x", "5", map[string]string{"app": "shop"})}, "10"
			}}}
			slim := reflector.Transformed(from, func(p podPtr) (podPtr, error) { p.Labels = nil; return p, nil })
			i := New[podPtr](source.Filtered(slim, func(o object.Head) bool { return o.GetLabels()["app"] == "shop" }), Options{Store: of, Initial: reflector.List})
			heard := map[EventType]int{}
			i.AddHandler(HandlerFunc[podPtr](func(_ context.Context, e Event[podPtr]) error { heard[e.Type]++; return nil }))
			_, err := i.Start(t.Context())
			require.NoError(t, err)
			require.NoError(t, i.WaitForSync(t.Context()))
			require.Equal(t, 1, i.Cache().Len())
			i.core.(*core).feeds.all()[0].reflector.Relist(&failure.Failure{Phase: failure.PhaseCache, Err: errors.New("something has the reflector list again")})
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Greater(t, lists, 1, "it listed again")
			require.Equal(t, map[EventType]int{Add: 1}, heard)
		})
	})
}
