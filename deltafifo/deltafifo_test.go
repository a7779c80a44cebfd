package deltafifo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

type meta = *metav1.PartialObjectMetadata

func delta(t Type, name, uid string, rv int) Delta[meta] {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(rv),
	}}
	return Delta[meta]{Type: t, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion}
}

func barrier(t Type, rv int) Delta[meta] {
	d := Delta[meta]{Type: t}
	if rv != 0 {
		d.RV = strconv.Itoa(rv)
	}
	return d
}

func show(b Batch[meta]) string {
	s := ""
	for _, d := range b.Deltas {
		s += fmt.Sprintf("%s %s@%s; ", d.Type, d.Key.Name, d.RV)
	}
	return s + "promise " + b.RV
}

func fill(f *DeltaFIFO[meta], deltas ...Delta[meta]) *DeltaFIFO[meta] {
	for _, d := range deltas {
		f.Add(d)
	}
	return f
}

func TestL02_BatchKeepsArrivalOrder(t *testing.T) {
	f := fill(New[meta](Options{}),
		delta(Added, "a", "1", 1), delta(Added, "b", "2", 2), delta(Updated, "a", "1", 3),
		barrier(Bookmark, 4), delta(Deleted, "b", "2", 5))
	b, err := f.PopBatch(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "added a@1; added b@2; updated a@3; bookmark @4; deleted b@5; promise 5", show(b))
	require.Zero(t, f.Len())
	_, ok := f.TryPopBatch()
	require.False(t, ok)
}

func TestPopTakesOneObjectUpToTheNextBarrier(t *testing.T) {
	f := fill(New[meta](Options{}),
		delta(Added, "a", "1", 1), delta(Added, "b", "2", 2), delta(Updated, "a", "1", 3),
		barrier(Replaced, 4), delta(Updated, "a", "1", 5), delta(Deleted, "b", "2", 6))
	for _, want := range []string{
		"added a@1; updated a@3; promise 1",
		"added b@2; promise 3",
		"replaced @4; promise 4",
		"updated a@5; promise 5",
		"deleted b@6; promise 6",
	} {
		b, err := f.Pop(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, show(b))
	}
	require.Zero(t, f.Len())
}

func TestCompactionKeepsTheNewestState(t *testing.T) {
	cases := []struct {
		name string
		in   []Delta[meta]
		want string
	}{
		{"updates fold", []Delta[meta]{delta(Updated, "a", "1", 1), delta(Updated, "a", "1", 2)}, "updated a@2; promise 2"},
		{"an add stays an add", []Delta[meta]{delta(Added, "a", "1", 1), delta(Updated, "a", "1", 2)}, "added a@2; promise 2"},
		{"the later place is taken", []Delta[meta]{delta(Updated, "a", "1", 1), delta(Updated, "b", "2", 2), delta(Updated, "a", "1", 3)}, "updated b@2; updated a@3; promise 3"},
		{"a deletion swallows what came before", []Delta[meta]{delta(Added, "a", "1", 1), delta(Deleted, "a", "1", 2)}, "deleted a@2; promise 2"},
		{"nothing folds into a deletion", []Delta[meta]{delta(Deleted, "a", "1", 1), delta(Added, "a", "2", 2), delta(Updated, "a", "2", 3)}, "deleted a@1; added a@3; promise 3"},
		{"another UID is another object", []Delta[meta]{delta(Updated, "a", "1", 1), delta(Updated, "a", "2", 2)}, "updated a@1; updated a@2; promise 2"},
		{"not across a barrier", []Delta[meta]{delta(Updated, "a", "1", 1), barrier(Bookmark, 2), delta(Updated, "a", "1", 3)}, "updated a@1; bookmark @2; updated a@3; promise 3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := fill(New[meta](Options{Compact: true}), c.in...)
			b, ok := f.TryPopBatch()
			require.True(t, ok)
			require.Equal(t, c.want, show(b))
		})
	}
}

// A promise must never cover a change that is still queued, whatever mixture of
// adding, popping by key, popping batches and compaction came before.
func TestL13_PromiseNeverCoversAQueuedChange(t *testing.T) {
	for seed := range uint64(300) {
		for _, compact := range []bool{false, true} {
			r := rand.New(rand.NewPCG(seed, 1))
			f := New[meta](Options{Compact: compact})
			type change struct {
				name string
				rv   int
			}
			var changes []change
			newest := map[string]int{}  // name → RV of its last change
			applied := map[string]int{} // name → RV applied
			rv := 1
			apply := func(b Batch[meta]) {
				for _, d := range b.Deltas {
					if d.ofObject() {
						at, _ := strconv.Atoi(d.RV)
						require.Greater(t, at, applied[d.Key.Name], "seed %d: order of %s", seed, d.Key.Name)
						applied[d.Key.Name] = at
					}
				}
				promise, _ := strconv.Atoi(b.RV)
				for _, c := range changes {
					if c.rv <= promise {
						require.GreaterOrEqual(t, applied[c.name], c.rv, "seed %d compact %v: promise %d without %s", seed, compact, promise, c.name)
					}
				}
			}
			for range 200 {
				switch n := r.IntN(10); {
				case n < 6:
					rv++
					name := string(rune('a' + r.IntN(4)))
					newest[name] = rv
					changes = append(changes, change{name, rv})
					f.Add(delta(Updated, name, "1", rv))
				case n == 6:
					f.Add(barrier(Bookmark, rv))
				case n < 9 && f.Len() > 0:
					b, err := f.Pop(t.Context())
					require.NoError(t, err)
					apply(b)
				default:
					if b, ok := f.TryPopBatch(); ok {
						apply(b)
						require.Equal(t, strconv.Itoa(rv), b.RV, "seed %d: a whole batch promises all", seed)
					}
				}
			}
			for f.Len() > 0 {
				b, err := f.Pop(t.Context())
				require.NoError(t, err)
				apply(b)
			}
			require.Equal(t, newest, applied, "seed %d", seed)
		}
	}
}

func TestL23_PopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New[meta](Options{})
		cause := errors.New("going home")
		ctx, cancel := context.WithCancelCause(t.Context())
		ends := make(chan error, 2)
		go func() { _, err := f.PopBatch(ctx, nil); ends <- err }()
		synctest.Wait()
		cancel(cause)
		require.ErrorIs(t, <-ends, cause)
		go func() { _, err := f.Pop(ctx); ends <- err }()
		require.ErrorIs(t, <-ends, cause)
	})
}

func TestPopBatchWaitsForTheFirstDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New[meta](Options{})
		got := make(chan Batch[meta])
		go func() { b, _ := f.PopBatch(t.Context(), nil); got <- b }()
		synctest.Wait()
		f.Add(delta(Added, "a", "1", 1))
		require.Equal(t, "added a@1; promise 1", show(<-got))
		require.True(t, f.Oldest().IsZero())
	})
}

func BenchmarkAddPopBatch(b *testing.B) {
	f := New[meta](Options{})
	d := delta(Updated, "a", "1", 1)
	var reuse []Delta[meta]
	for b.Loop() {
		for range 64 {
			f.Add(d)
		}
		batch, _ := f.PopBatch(b.Context(), reuse)
		reuse = batch.Deltas
	}
}

func TestRoomIsMadeByPopping(t *testing.T) {
	pops := map[string]func(*DeltaFIFO[meta]){
		"a batch": func(f *DeltaFIFO[meta]) { f.TryPopBatch() },
		"a key":   func(f *DeltaFIFO[meta]) { _, _ = f.Pop(context.Background()) },
	}
	for name, pop := range pops {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := New[meta](Options{})
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
				pop(f)
				synctest.Wait()
				require.Len(t, waited, cap(waited))
				require.NoError(t, errors.Join(<-waited, <-waited))
			})
		})
	}
}
