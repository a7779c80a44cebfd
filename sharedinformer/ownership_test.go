package sharedinformer

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// given is a share that has the slots given by the test, all in one term.
type given struct {
	mu      sync.Mutex
	owned   shard.Slots
	changed chan struct{}
}

func (g *given) Owned() (shard.Slots, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned, g.changed
}

func (g *given) Term(slot int) (shard.Token, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return shard.Token{Slot: slot, Epoch: 1}, g.owned.Has(slot)
}

func (g *given) Enter(ctx context.Context, _ uint64) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

func (g *given) set(slots shard.Slots) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owned = slots
	close(g.changed)
	g.changed = make(chan struct{})
}

// lingering is a part of a world whose lists take ten seconds, and whose watches deliver for a
// second after they end, like watches that have already read the next event.
type lingering struct{ part }

func (l lingering) List(ctx context.Context, o source.Request) source.List[object.Head] {
	list := l.part.List(ctx, o)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		time.Sleep(10 * time.Second)
		items(yield)
	}
	return list
}

func (l lingering) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, cancel) })
	return l.part.Watch(longer, o)
}

// While the namespaces change, an object that stays ours stays in the cache, whatever is lost or
// still arrives before the new lists. A change that still arrives is delivered.
func TestS03_NothingMovesWithTheNamespaces(t *testing.T) {
	all, one := []string(nil), []string{"a"}
	for name, sets := range map[string][][]string{
		"to one": {all, one}, "to all": {one, all}, "to and fro": {all, one, all}, "at once": {one, all, one},
	} {
		for _, lost := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lost %t", name, lost), func(t *testing.T) {
				both(t, func(t *testing.T, of Store) { changeNamespaces(t, of, sets, lost) })
			})
		}
	}
}

func changeNamespaces(t *testing.T, of Store, sets [][]string, lost bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		key := shard.ByUID()
		var mine, other string
		for n := 0; mine == "" || other == ""; n++ {
			name := fmt.Sprint("x", n)
			w.put("a", name, func(o partial) {
				if shard.SlotOf(key.Hash(o), 2) == 0 {
					mine = name
				} else {
					other = name
				}
			})
		}
		share := &given{owned: shard.NewSlots(2, 0, 1), changed: make(chan struct{})}
		i := informerOf(lingering{part{w}}, Options{Store: of, Namespaces: sets[0], Shard: shard.Scope{Key: key, Share: share}})
		var heard []string
		i.AddHandler(HandlerFunc[partial](func(_ context.Context, e Event[partial]) error {
			if e.Object.Name == mine {
				heard = append(heard, fmt.Sprintf("%s moved=%t", e.Type, e.Moved))
			}
			return nil
		}))
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		synctest.Wait() // it must be watching, or the change would not arrive
		want := []string{"add moved=false"}
		for _, set := range sets[1:] {
			require.NoError(t, i.SetNamespaces(set))
		}
		if lost {
			time.Sleep(5 * time.Second)
			share.set(shard.NewSlots(2, 0))
		} else {
			want = append(want, "update moved=false")
			w.put("a", mine, func(partial) {})
			synctest.Wait()
			require.Equal(t, want, heard, "before the list")
		}
		require.NoError(t, i.WaitForSync(t.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		_, kept := i.Cache().Get(object.Key{Namespace: "a", Name: other})
		require.Equal(t, want, heard)
		require.Equal(t, !lost, kept, "of the slot that was lost")
	})
}

// The watch had read a change when the slot was lost, and queues it after the loss.
func TestS05_AChangeThatComesAfterTheLossIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var read partial
		w.put("a", "x", func(o partial) { read = o })
		share := &given{owned: shard.AllSlots(1), changed: make(chan struct{})}
		i := New[partial](part{w}, Options{Initial: reflector.List, Shard: shard.Scope{Key: shard.ByUID(), Share: share}})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		require.Equal(t, 1, i.Cache().Len())
		share.set(shard.NewSlots(1))
		synctest.Wait()
		i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Updated, Key: object.KeyOf(read), Object: read, RV: read.ResourceVersion})
		synctest.Wait()
		require.Zero(t, i.Cache().Len())
	})
}

// The slot was held until an index function ended its goroutine.
func TestS04_AnUnusableCacheHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		everything := &given{owned: shard.AllSlots(1), changed: make(chan struct{})}
		i := New[partial](part{w}, Options{Initial: reflector.List, Shard: shard.Scope{Key: shard.ByUID(), Share: everything}})
		AddIndex(i, "bad", func(partial) []string { runtime.Goexit(); return nil })
		wait, err := i.Start(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, i.Holds(1))
		w.change(rand.New(rand.NewPCG(1, 1)))
		require.ErrorContains(t, wait(), "Goexit")
		require.False(t, i.Holds(1))
	})
}

// teamed returns a state of one object whose slot depends on a label.
func teamed(team, rv string) partial {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "x", UID: "u1", ResourceVersion: rv, Labels: map[string]string{"team": team},
	}}
}

// teams returns the values of a label whose slots are the first and the second of two.
func teams() (ours, others string) {
	for _, team := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if shard.SlotOf(shard.ByLabel("team").Hash(teamed(team, "1")), 2) == 0 {
			ours = team
		} else {
			others = team
		}
	}
	return ours, others
}

// If a server repeats an old event, it does not restore an object that moved away with its label.
func TestS05_OldEventDoesNotRestoreAMovedObject(t *testing.T) {
	ours, others := teams()
	for name, leave := range map[string]deltafifo.Delta{
		"by a change": {Type: deltafifo.Updated, Object: teamed(others, "30")},
		"passed by":   {Type: deltafifo.Passed, Part: &deltafifo.Part{Away: []object.Version{object.VersionOf(teamed(others, "30")).Clone()}}},
		"in a list":   {Type: deltafifo.Replaced, Part: &deltafifo.Part{Gains: 2, Away: []object.Version{object.VersionOf(teamed(others, "30")).Clone()}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				share := &given{owned: shard.NewSlots(2, 0), changed: make(chan struct{})}
				i := New[partial](part{newWorld()}, Options{Initial: reflector.List, Shard: shard.Scope{Key: shard.ByLabel("team"), Share: share}})
				defer runFor(t, i)()
				require.NoError(t, i.WaitForSync(t.Context()))
				key := object.Key{Namespace: "a", Name: "x"}
				tell := func(d deltafifo.Delta) {
					if d.Type != deltafifo.Replaced {
						d.Key = key
					}
					i.core.(*core).queue.Add(d)
					synctest.Wait()
				}
				old := deltafifo.Delta{Type: deltafifo.Updated, Object: teamed(ours, "20")}
				tell(old)
				require.Equal(t, 1, i.Cache().Len())
				leave.RV = "30"
				tell(leave)
				require.Zero(t, i.Cache().Len())
				old.Late = true
				tell(old)
				require.Zero(t, i.Cache().Len(), "it is another process's at 30")
				tell(deltafifo.Delta{Type: deltafifo.Updated, Object: teamed(ours, "40"), RV: "40"})
				require.Equal(t, 1, i.Cache().Len(), "it is ours again")
			})
		})
	}
}

// Nor does it restore an object that was dropped with its slot and deleted while another process owned
// the slot.
func TestS04_OldEventDoesNotRestoreADroppedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var old partial
		w.put("a", "x", func(o partial) { old = o })
		share := &given{owned: shard.AllSlots(1), changed: make(chan struct{})}
		i := informerOf(part{w}, Options{Shard: shard.Scope{Key: shard.ByUID(), Share: share}})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		require.Equal(t, 1, i.Cache().Len())
		share.set(shard.NewSlots(1))
		synctest.Wait()
		require.Zero(t, i.Cache().Len())
		w.mu.Lock()
		clear(w.objects)
		w.mu.Unlock()
		share.set(shard.AllSlots(1))
		synctest.Wait()
		require.True(t, i.Holds(0))
		i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Updated, Key: object.KeyOf(old), Object: old, Late: true})
		synctest.Wait()
		require.Zero(t, i.Cache().Len(), "another process deleted it")
	})
}

// streams is a source whose watches deliver one series of events each, and then expire.
type streams [][]wire.Event[object.Head]

func (*streams) Describe() source.Description { return source.Description{Name: "things"} }

func (*streams) List(context.Context, source.Request) source.List[object.Head] {
	panic("nobody lists")
}

func (s *streams) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, last := (*s)[0], len(*s) == 1
	*s = (*s)[1:]
	return func(yield func(wire.Event[object.Head], error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if last {
			<-ctx.Done()
		}
		yield(wire.Event[object.Head]{}, apierrors.NewResourceExpired("it is over"))
	}, nil
}

// While a streaming list is read, an object comes back and is deleted. That is not a move.
func TestS03_AnObjectThatCameBackInAStreamingListIsDeleted(t *testing.T) {
	ours, others := teams()
	end := func(rv string) wire.Event[object.Head] {
		return wire.Event[object.Head]{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: rv, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}}
	}
	event := func(typ watch.EventType, team, rv string) wire.Event[object.Head] {
		return wire.Event[object.Head]{Type: typ, Object: teamed(team, rv)}
	}
	for name, c := range map[string]struct {
		meanwhile []wire.Event[object.Head]
		moved     bool
	}{
		"deleted here":  {[]wire.Event[object.Head]{event(watch.Added, others, "20"), event(watch.Modified, ours, "21"), event(watch.Deleted, ours, "22")}, false},
		"deleted there": {[]wire.Event[object.Head]{event(watch.Added, others, "20"), event(watch.Deleted, others, "22")}, true},
		"there":         {[]wire.Event[object.Head]{event(watch.Added, ours, "20"), event(watch.Modified, others, "21")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := &streams{{event(watch.Added, ours, "10"), end("11")}, append(c.meanwhile, end("23"))}
				share := &given{owned: shard.NewSlots(2, 0), changed: make(chan struct{})}
				i := New[partial](from, Options{Initial: reflector.WatchList, Shard: shard.Scope{Key: shard.ByLabel("team"), Share: share}})
				var heard []string
				i.AddHandler(HandlerFunc[partial](func(_ context.Context, e Event[partial]) error {
					heard = append(heard, fmt.Sprintf("%s moved=%t", e.Type, e.Moved))
					return nil
				}))
				defer runFor(t, i)()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, "23", i.Cache().RV())
				require.Equal(t, []string{"add moved=false", fmt.Sprintf("delete moved=%t", c.moved)}, heard)
			})
		})
	}
}

// A list shows that an object belongs to another process now. It is delivered as moved, so mayHave
// must report it, even while the cache is locked, and while a batch was taken but not applied.
func TestS03_MovedObjectsAreReportedAsPossiblyCached(t *testing.T) {
	ours, others := teams()
	share := &given{owned: shard.NewSlots(2, 0), changed: make(chan struct{})}
	i := informerOf(part{newWorld()}, Options{Shard: shard.Scope{Key: shard.ByLabel("team"), Share: share}})
	defer runFor(t, i)()
	require.NoError(t, i.WaitForSync(t.Context()))
	c, now := i.core.(*core), object.VersionOf(teamed(others, "30"))
	idle := func() bool { return !c.mayHave(object.Version{Key: object.Key{Name: "nobody"}}) }
	require.Eventually(t, idle, time.Minute, time.Millisecond)
	require.False(t, c.mayHave(now))

	c.join.Lock()
	c.queue.Add(deltafifo.Delta{Type: deltafifo.Added, Key: now.Key, Object: teamed(ours, "20"), RV: "20"})
	for c.queue.Len() > 0 {
		runtime.Gosched()
	}
	may := c.mayHave(now)
	c.join.Unlock()
	require.True(t, may, "it is about to be cached")
	require.Eventually(t, func() bool { return i.Cache().Len() == 1 && idle() }, time.Minute, time.Millisecond)

	require.True(t, c.mayHave(now), "it is cached")
	may = false
	AddIndex(i, "slow", func(partial) []string {
		may = c.mayHave(now)
		return nil
	})
	require.True(t, may, "it is cached, and nobody may look")
}
