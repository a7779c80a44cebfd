package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
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

// source.Choosing is public, and what it returns is a ListerWatcher. An informer of one hears
// of what leaves the choice as Passed, and must let go of it (L17).
func TestL17_WhatAChosenSourcePassesLeavesTheCache(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		for _, kind := range []watch.EventType{watch.Modified, watch.Deleted} {
			t.Run(string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					web, other := map[string]string{"app": "web"}, map[string]string{"app": "db"}
					from := &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", web)}, "10" }}
					i := New[podPtr](source.Choosing(from, isWeb), Options{Store: of, Initial: reflector.List})
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

// A late one, such as a repeated event, must not end the informer for good.
func TestALatePassedDoesNotTearTheInformer(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			web, other := map[string]string{"app": "web"}, map[string]string{"app": "db"}
			from := &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", web)}, "10" }}
			i := New[podPtr](source.Choosing(from, isWeb), Options{Store: of, Initial: reflector.List})
			_, err := i.Start(t.Context())
			require.NoError(t, err)
			require.NoError(t, i.WaitForSync(t.Context()))
			from.events <- wire.Event[object.Head]{Type: watch.Modified, Object: podAt("x", "9", other)} // sent again, as servers may
			synctest.Wait()
			require.Nil(t, i.Status().Failure)
		})
	})
}

// askingReuser is a plain source that gives known objects back, and chooses nothing itself.
type askingReuser struct {
	*fed
	known wire.Known
}

func (r askingReuser) Reusing(known wire.Known) source.ListerWatcher {
	return askingReuser{r.fed, known}
}

func (r askingReuser) List(ctx context.Context, o metav1.ListOptions) source.List[object.Head] {
	list := r.fed.List(ctx, o)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if r.known != nil {
				if have, ok := r.known(object.KeyOf(item)); ok && have.GetUID() == item.GetUID() && have.GetResourceVersion() == item.GetResourceVersion() {
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

// A relist that finds nothing changed changes nothing, also where a cache is packed and its
// source takes known objects back: what stands for a packed object must be asked for its slot
// by the head of that, which has the owner.
func TestC01_AKnownObjectIsChosenByItsWholeHead(t *testing.T) {
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
			from := askingReuser{fed: &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { lists++; return []podPtr{pod()}, "10" }}}
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

// moody is a source that is narrowed once, and does something else the second time.
type moody struct {
	traced
	times *atomic.Int32
	do    func()
}

func (m moody) In(namespace string) (source.ListerWatcher, error) {
	if m.times.Add(1) > 1 {
		m.do()
	}
	return m.traced.In(namespace)
}

// A source that panics when it is narrowed, or its goroutine ended, in a goroutine of the
// informer's is a failure, and not the end of the process, nor of the feed without a word.
func TestL22_ASourceThatBreaksWhereASnapshotIsLookedFor(t *testing.T) {
	for name, do := range map[string]func(){"panic": func() { panic("moody") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.put("a", "x", func(partial) {})
				i := informerOf(moody{traced{part{w, ""}}, new(atomic.Int32), do}, Options{
					Namespaces: []string{"a"}, Snapshot: snapshot.In(t.TempDir(), snapshot.Options{}),
				})
				defer runFor(t, i)()
				time.Sleep(5 * time.Second)
				s := i.Status()
				require.True(t, i.HasSynced() || s.Failure != nil || s.Namespaces[0].Failure != nil, "not synced, and nothing is wrong: %+v", i.Unsynced())
			})
		})
	}
}

// late says that the kind has no namespaces when it is read, as a list always does.
type late struct {
	part
	namespace string
}

func (l late) In(namespace string) (source.ListerWatcher, error) {
	return late{part{l.world, ""}, namespace}, nil
}

func (l late) Watch(ctx context.Context, o metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	if l.namespace == "" {
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

// "What it returns fails with ErrNotNamespaced where the kind has no namespaces", also in
// the middle of a watch: then the kind is cached whole.
func TestAWatchThatFailsWithNotNamespacedWhenItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := New[partial](late{part{newWorld(), ""}, ""}, Options{Namespaces: []string{"a"}, Initial: reflector.WatchList})
		defer runFor(t, i)()
		time.Sleep(10 * time.Minute)
		require.True(t, i.HasSynced(), "%v", i.Unsynced())
	})
}

// noPacker is a wrapper of a source whose own source is no Packer, and says so by nil.
type noPacker struct{ *fed }

func (noPacker) Packing(*wire.Packer) source.Namespacer { return nil }

// Nil from Choosing, Selecting and Reusing means that the source cannot, and from In it is
// said; from Packing it must not become a nil source.
func TestASourceThatReturnsNilFromPacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := noPacker{&fed{list: func() ([]podPtr, string) { return []podPtr{podAt("x", "5", nil)}, "10" }}}
		i := New[podPtr](from, Options{Store: Packed, Initial: reflector.List})
		_, err := i.Start(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.True(t, i.HasSynced(), "%v", i.Unsynced())
	})
}

// nilItem yields a nil object, in a list or in a watch.
type nilItem struct{ *fed }

func (z nilItem) In(string) (source.ListerWatcher, error) {
	return unusable{z, source.ErrNotNamespaced}, nil
}

// "reflector.ErrNoObject" is what says that a source yielded nothing, whatever wraps it.
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

func (z noMeta) List(ctx context.Context, o metav1.ListOptions) source.List[object.Head] {
	list := z.fed.List(ctx, o)
	list.Meta = nil
	return list
}

// A list without metadata has no resource version, as the reflector says where it resumes.
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

// fed is a plain source: a list from a function, and a watch from a channel.
type fed struct {
	list   func() ([]podPtr, string)
	events chan wire.Event[object.Head]
}

func (s *fed) String() string { return "things" }

func (s *fed) List(context.Context, metav1.ListOptions) source.List[object.Head] {
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

func (s *fed) Watch(ctx context.Context, o metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
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
