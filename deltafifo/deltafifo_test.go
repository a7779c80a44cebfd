package deltafifo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

func delta(t Type, name, uid string, rv int) Delta {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(rv),
	}}
	return Delta{Type: t, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion}
}

func late(t Type, name, uid string, rv int) Delta {
	d := delta(t, name, uid, rv)
	d.Late, d.RV = true, ""
	return d
}

func barrier(t Type, rv int) Delta {
	d := Delta{Type: t}
	if rv != 0 {
		d.RV = strconv.Itoa(rv)
	}
	return d
}

func show(deltas []Delta) string {
	var s []string
	for _, d := range deltas {
		s = append(s, fmt.Sprintf("%s %s@%s", d.Type, d.Key.Name, d.RV))
	}
	return strings.Join(s, "; ")
}

func fill(f *DeltaFIFO, deltas ...Delta) *DeltaFIFO {
	for _, d := range deltas {
		f.Add(d)
	}
	return f
}

func TestL02_BatchKeepsArrivalOrder(t *testing.T) {
	f := fill(New(Options{}),
		delta(Added, "a", "1", 1), delta(Added, "b", "2", 2), delta(Updated, "a", "1", 3),
		barrier(Bookmark, 4), delta(Deleted, "b", "2", 5))
	deltas, err := f.Pop(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "added a@1; added b@2; updated a@3; bookmark @4; deleted b@5", show(deltas))
	require.Zero(t, f.Len())
	require.Nil(t, f.TryPop())
}

func TestCompactionKeepsTheNewestState(t *testing.T) {
	cases := []struct {
		name string
		in   []Delta
		want string
	}{
		{"updates fold", []Delta{delta(Updated, "a", "1", 1), delta(Updated, "a", "1", 2)}, "updated a@2"},
		{"an add stays an add", []Delta{delta(Added, "a", "1", 1), delta(Updated, "a", "1", 2)}, "added a@2"},
		{"the later place is taken", []Delta{delta(Updated, "a", "1", 1), delta(Updated, "b", "2", 2), delta(Updated, "a", "1", 3)}, "updated b@2; updated a@3"},
		{"a deletion swallows what came before", []Delta{delta(Added, "a", "1", 1), delta(Deleted, "a", "1", 2)}, "deleted a@2"},
		{"nothing folds into a deletion", []Delta{delta(Deleted, "a", "1", 1), delta(Added, "a", "2", 2), delta(Updated, "a", "2", 3)}, "deleted a@1; added a@3"},
		{"another UID is another object", []Delta{delta(Updated, "a", "1", 1), delta(Updated, "a", "2", 2)}, "updated a@1; updated a@2"},
		{"what is late and older goes", []Delta{delta(Added, "a", "1", 2), late(Added, "a", "1", 2), late(Updated, "a", "1", 1), late(Deleted, "a", "1", 1)}, "added a@2"},
		{"what is late and newer takes no place", []Delta{delta(Added, "a", "1", 2), delta(Added, "b", "2", 9), late(Updated, "a", "1", 3)}, "added a@2; added b@9; updated a@"},
		{"a late deletion may have the last version", []Delta{delta(Added, "a", "1", 2), late(Deleted, "a", "1", 2)}, "added a@2; deleted a@"},
		{"what is late folds into a newer one", []Delta{delta(Added, "a", "1", 2), late(Updated, "a", "1", 3), delta(Updated, "a", "1", 4)}, "added a@2; updated a@4"},
		{"what is late and of another UID stays", []Delta{delta(Added, "a", "1", 2), late(Added, "a", "2", 1)}, "added a@2; added a@"},
		{"not across a barrier", []Delta{delta(Updated, "a", "1", 1), barrier(Bookmark, 2), delta(Updated, "a", "1", 3)}, "updated a@1; bookmark @2; updated a@3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := fill(New(Options{Compact: true}), c.in...)
			require.Equal(t, c.want, show(f.TryPop()))
		})
	}
}

// However deltas are added and folded, a batch brings each object to its newest state, in its own
// order, and covers every earlier change.
func TestL13_ABatchHasEveryChange(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := New(Options{Compact: seed%2 == 0})
		newest, applied := map[string]int{}, map[string]int{} // name to RV
		for rv := 1; rv < 2000; rv++ {
			switch n := r.IntN(200); {
			case n == 0:
				for _, d := range f.TryPop() {
					require.NotZero(t, d.Type, "seed %d", seed)
					if d.ofObject() {
						at, _ := strconv.Atoi(d.RV)
						require.Greater(t, at, applied[d.Key.Name], "seed %d: order of %s", seed, d.Key.Name)
						require.Equal(t, d.RV, d.Object.GetResourceVersion())
						applied[d.Key.Name] = at
					}
				}
				require.Equal(t, newest, applied, "seed %d", seed)
				require.Zero(t, f.Len())
			case n < 4:
				f.Add(barrier(Bookmark, rv))
			default:
				name, kind := string(rune('a'+r.IntN(4))), Updated
				if n < 40 {
					kind = Deleted
				}
				newest[name] = rv
				f.Add(delta(kind, name, "1", rv))
			}
		}
	}
}

// Folded deltas are soon removed, retain no object, and do not hide how long the consumer has been
// away.
func TestFoldedDeltasTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{Compact: true})
		f.Add(delta(Updated, "hot", "1", 1))
		first := f.Oldest()
		require.False(t, first.IsZero())
		time.Sleep(time.Second)
		f.Add(delta(Updated, "cold", "2", 2))
		for n := range 20_000 {
			require.NoError(t, f.WaitForRoom(t.Context()))
			f.Add(delta(Updated, "hot", "1", n+3))
			require.LessOrEqual(t, len(f.entries), 4*minHoles)
		}
		require.Equal(t, 2, f.Len())
		require.EqualValues(t, 20_000, f.Merged())
		require.Equal(t, first, f.Oldest())
		require.Equal(t, "updated cold@2; updated hot@20002", show(f.TryPop()))
		require.True(t, f.Oldest().IsZero())
	})
}

func TestL23_PopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{})
		cause := errors.New("going home")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := f.Pop(ctx, nil); ended <- err }()
		synctest.Wait()
		cancel(cause)
		require.ErrorIs(t, <-ended, cause)
	})
}

func TestPopWaitsForTheFirstDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{})
		got := make(chan []Delta)
		go func() { deltas, _ := f.Pop(t.Context(), nil); got <- deltas }()
		synctest.Wait()
		f.Add(delta(Added, "a", "1", 1))
		require.Equal(t, "added a@1", show(<-got))
		require.True(t, f.Oldest().IsZero())
	})
}

// The consumer checks, finds nothing and begins to wait: a delta added in between must wake it.
func TestL17_EveryDeltaWakesTheConsumer(t *testing.T) {
	const all = 15_000
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	f := New(Options{})
	var taken atomic.Int64
	var producer sync.WaitGroup
	defer producer.Wait()
	defer cancel()
	producer.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for n := range int64(all) {
			for spins := 1; taken.Load() < n && ctx.Err() == nil; spins++ { // with nothing else to wake it
				if spins%1000 == 0 {
					runtime.Gosched()
				}
			}
			for range random.IntN(100) { // it may be anywhere in its loop
				_ = taken.Load()
			}
			f.Add(delta(Updated, "a", "1", 1))
		}
	})
	for taken.Load() < all {
		deltas, err := f.Pop(ctx, nil)
		require.NoError(t, err, "after %d of %d", taken.Load(), all)
		taken.Add(int64(len(deltas)))
	}
}

// After a burst, neither deltas nor the index of compaction remain.
func TestABurstLeavesNothing(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	for _, end := range []Type{Updated, Bookmark} {
		f := New(Options{Compact: true})
		before := heap()
		for n := range 100_000 {
			f.Add(Delta{Type: Updated, Key: object.Key{Name: strconv.Itoa(n)}, Object: &metav1.PartialObjectMetadata{}})
		}
		f.Add(delta(end, "a", "1", 1))
		reuse := f.TryPop()
		f.Add(delta(Updated, "a", "1", 1))
		_, err := f.Pop(t.Context(), reuse)
		require.NoError(t, err)
		reuse = nil
		require.Less(t, heap(), before+1<<20)
		runtime.KeepAlive(f)
	}
}

func BenchmarkAddPop(b *testing.B) {
	f := New(Options{})
	d := delta(Updated, "a", "1", 1)
	var reuse []Delta
	for b.Loop() {
		for range 64 {
			f.Add(d)
		}
		reuse, _ = f.Pop(b.Context(), reuse)
	}
}

func TestRoomIsMadeByPopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{})
		for i := range MaxAhead {
			require.NoError(t, f.WaitForRoom(t.Context()))
			f.Add(delta(Added, strconv.Itoa(i), "1", i+1))
		}
		full := errors.New("full")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(full)
		require.ErrorIs(t, f.WaitForRoom(ctx), full)
		waited := make(chan error, 2)
		for range cap(waited) {
			go func() { waited <- f.WaitForRoom(t.Context()) }()
		}
		synctest.Wait()
		require.Empty(t, waited)
		f.TryPop()
		synctest.Wait()
		require.Len(t, waited, cap(waited))
		require.NoError(t, errors.Join(<-waited, <-waited))
	})
}

// impatient is a context that ends when it is waited for too often.
type impatient struct {
	context.Context
	end   func()
	waits int
}

func (i *impatient) Done() <-chan struct{} {
	if i.waits++; i.waits > 10 {
		i.end()
	}
	return i.Context.Done()
}

// A producer that waits for room again, after an earlier Pop, sleeps until the next one.
func TestWaitForRoomSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{})
		fill := func() {
			for i := range MaxAhead {
				f.Add(delta(Added, strconv.Itoa(i), "1", i+1))
			}
		}
		fill()
		f.TryPop()
		fill()
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- f.WaitForRoom(&impatient{Context: ctx, end: cancel}) }()
		synctest.Wait()
		require.Empty(t, waited)
		f.TryPop()
		require.NoError(t, <-waited)
		cancel()
	})
}

// However many lists arrive while the consumer is blocked, at most one per namespace is queued. The
// changes between two lists stay, and a list inherits NewHistory from the one that it supersedes.
func TestNewerListReplacesAQueuedList(t *testing.T) {
	list := func(namespace string, rv int, anew bool) Delta {
		d := barrier(Replaced, rv)
		d.Key.Namespace, d.NewHistory = namespace, anew
		d.Items = []object.Head{delta(Added, "a", "1", rv).Object}
		return d
	}
	for _, compact := range []bool{false, true} {
		f := New(Options{Compact: compact})
		require.False(t, f.NewHistoryQueued(""))
		fill(f, delta(Added, "x", "1", 1), list("", 2, true), list("shop", 3, false), delta(Deleted, "x", "1", 4))
		first := f.Oldest()
		for rv := range 1000 {
			require.True(t, f.NewHistoryQueued(""))
			f.Add(list("", 5+rv, false))
		}
		require.Equal(t, 4, f.Len())
		require.LessOrEqual(t, len(f.entries), 4*minHoles)
		require.EqualValues(t, 1000, f.Merged())
		require.Equal(t, first, f.Oldest())
		f.Add(list("shop", 2000, false))
		deltas := f.TryPop()
		require.Equal(t, "added x@1; deleted x@4; replaced @1004; replaced @2000", show(deltas))
		require.True(t, deltas[2].NewHistory)
		require.False(t, deltas[3].NewHistory)

		require.True(t, f.NewHistoryQueued(""), "it was taken, but not applied yet")
		require.Nil(t, f.TryPop())
		require.False(t, f.NewHistoryQueued(""), "it was applied")
	}
}

// While the consumer applies a list from a new history, which may take seconds, its cache still has the old one.
func TestL17_AListFromANewHistoryCountsUntilItIsApplied(t *testing.T) {
	f := New(Options{})
	d := barrier(Replaced, 5)
	d.NewHistory = true
	f.Add(d)
	_, err := f.Pop(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, f.NewHistoryQueued(""), "the consumer has not called Pop again")
	require.False(t, f.NewHistoryQueued("shop"))
	f.Add(barrier(Replaced, 6))
	_, err = f.Pop(t.Context(), nil)
	require.NoError(t, err)
	require.False(t, f.NewHistoryQueued(""))
}

// The age of the queue is the lag of the consumer, even if only a few objects change.
func TestL31_FoldingMakesNoQueueYounger(t *testing.T) {
	for _, objects := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			f := New(Options{Compact: true})
			began := time.Now()
			for rv := range 2000 {
				d := delta(Updated, strconv.Itoa(rv%objects), "1", rv+1)
				d.Received = time.Now()
				f.Add(d)
				time.Sleep(time.Second)
			}
			require.Equal(t, objects, f.Len())
			require.Equal(t, began, f.Oldest())
			f.TryPop()
			require.True(t, f.Oldest().IsZero())
		})
	}
}

// A popped batch counts as in progress until the next Pop.
func TestIdle(t *testing.T) {
	f := New(Options{})
	require.True(t, f.Idle())
	f.Add(Delta{Type: Sync})
	require.False(t, f.Idle())
	require.Len(t, f.TryPop(), 1)
	require.False(t, f.Idle(), "it is being applied")
	require.Nil(t, f.TryPop())
	require.True(t, f.Idle())
}

// Slots lost one after the other while the consumer is busy are dropped together.
func TestDropMergesWithTheNext(t *testing.T) {
	f := New(Options{})
	lose := func(total, slot int) { f.Add(Delta{Type: Drop, Part: &Part{Lost: shard.NewSlots(total, slot)}}) }
	for slot := range 3 {
		lose(8, slot)
		f.Add(delta(Added, "a", "1", slot))
	}
	lose(9, 1) // of another number of slots
	lose(9, 2)
	var lost []string
	for _, d := range f.TryPop() {
		if d.Type == Drop {
			lost = append(lost, d.Part.Lost.String())
		}
	}
	require.Equal(t, []string{"0-2", "1-2"}, lost)
	lose(9, 3)
	require.Len(t, f.TryPop(), 1, "what was taken is not changed")
}
