package sharedinformer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

type partial = *metav1.PartialObjectMetadata

func thing(name string, uid, rv int) partial {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(strconv.Itoa(uid)), ResourceVersion: strconv.Itoa(rv)}}
}

func show(e event) string {
	s := fmt.Sprintf("%s %s@%s", e.Type, e.Object.GetName(), e.Object.GetResourceVersion())
	if e.Old != nil {
		s += " from " + e.Old.GetResourceVersion()
	}
	if e.Initial {
		s += " initial"
	}
	return s
}

func TestCoalescerMergesAsDocumented(t *testing.T) {
	a1, a2, a3, other := thing("a", 1, 1), thing("a", 1, 2), thing("a", 1, 3), thing("a", 9, 4)
	add := event{Type: Add, Object: a1, Initial: true}
	update := func(old, new partial) event { return event{Type: Update, Old: old, Object: new} }
	gone := func(o partial) event { return event{Type: Delete, Object: o} }
	born := func(o partial) event { return event{Type: Add, Object: o} }
	cases := []struct {
		name   string
		in     []event
		want   []string
		merged uint64
	}{
		{"add, update", []event{add, update(a1, a2)}, []string{"add a@2 initial"}, 1},
		{"add, delete", []event{add, gone(a1)}, nil, 2},
		{"update, update", []event{update(a1, a2), update(a2, a3)}, []string{"update a@3 from 1"}, 1},
		{"update, delete", []event{update(a1, a2), gone(a3)}, []string{"delete a@3 from 1"}, 1},
		{"delete, add", []event{gone(a1), born(other)}, []string{"delete a@1", "add a@4"}, 0},
		{"delete, add, update", []event{gone(a1), born(other), update(other, thing("a", 9, 5))}, []string{"delete a@1", "add a@5"}, 1},
		{"delete, add, delete", []event{gone(a1), born(other), gone(other)}, []string{"delete a@1"}, 2},
		{"update, delete, add", []event{update(a1, a2), gone(a3), born(other)}, []string{"delete a@3 from 1", "add a@4"}, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			box := newCoalescer()
			box.offer(&segment{events: c.in})
			require.Equal(t, mailboxStats{pending: len(c.want), merged: c.merged}, box.stats())
			var got []string
			for events, _ := box.next(); events != nil; events, _ = box.next() {
				got = append(got, show(events[0]))
			}
			require.Equal(t, c.want, got)
			require.Empty(t, box.byKey)
			require.Zero(t, box.order.Len())
		})
	}
}

func TestL11_CoalescerResyncsOnlyObjectsWithoutAPendingChange(t *testing.T) {
	box := newCoalescer()
	a1, a2, b := thing("a", 1, 1), thing("a", 1, 2), thing("b", 2, 3)
	box.offer(&segment{events: []event{{Type: Update, Old: a1, Object: a2}}})
	view := func(objects ...partial) indexer.View {
		x := indexer.New()
		x.Write(func(w indexer.Writer) {
			for _, o := range objects {
				w.Set(object.KeyOf(o), o)
			}
		})
		v, _ := x.Snapshot()
		return v
	}
	mark := &resync{objects: view(a2, b), targets: map[mailbox]struct{}{box: {}}}
	box.offer(&segment{resync: mark})
	box.offer(&segment{resync: &resync{objects: view(thing("c", 3, 3))}})
	b2 := thing("b", 2, 4)
	box.offer(&segment{events: []event{{Type: Update, Old: b, Object: b2}}})
	var got []string
	for events, _ := box.next(); events != nil; events, _ = box.next() {
		got = append(got, show(events[0]))
	}
	require.Equal(t, []string{"update a@2 from 1", "update b@4 from 3"}, got)
}

// Whatever events come in, and whenever they are taken out, the delivered ones pair up, end in the
// latest state, and never need more than one entry per object.
func TestL09_CoalescerHoldsOneEntryPerObject(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		box := newCoalescer()
		truth, told := map[string]partial{}, map[string]partial{}
		offered := uint64(0)
		take := func() bool {
			events, _ := box.next()
			if events == nil {
				return false
			}
			e := events[0]
			box.ack()
			before := told[e.Object.GetName()]
			switch e.Type {
			case Add:
				require.Nil(t, before, "seed %d: add of what is known", seed)
				told[e.Object.GetName()] = e.Object.(partial)
			case Update:
				require.Same(t, before, e.Old, "seed %d: update from what was told", seed)
				told[e.Object.GetName()] = e.Object.(partial)
			case Delete:
				require.NotNil(t, before, "seed %d: delete of what is unknown", seed)
				require.Equal(t, before.UID, e.Object.GetUID(), "seed %d", seed)
				delete(told, e.Object.GetName())
			}
			return true
		}
		for step := range 400 {
			name := string(rune('a' + r.IntN(4)))
			old := truth[name]
			var e event
			switch {
			case r.IntN(3) == 0:
				take()
				continue
			case old == nil:
				e = event{Type: Add, Object: thing(name, step, step)}
				truth[name] = e.Object.(partial)
			case r.IntN(3) == 0:
				e = event{Type: Delete, Object: old}
				delete(truth, name)
			default:
				n, err := strconv.Atoi(string(old.UID))
				require.NoError(t, err)
				e = event{Type: Update, Old: old, Object: thing(name, n, step)}
				truth[name] = e.Object.(partial)
			}
			offered++
			box.offer(&segment{events: []event{e}})
			require.LessOrEqual(t, box.order.Len(), 4, "seed %d", seed)
			held := box.stats()
			require.Equal(t, offered, held.delivered+uint64(held.pending)+held.merged, "seed %d: the count", seed)
		}
		for take() {
		}
		require.Equal(t, truth, told, "seed %d", seed)
	}
}

func BenchmarkCoalescer(b *testing.B) {
	box := newCoalescer()
	old, now := thing("a", 1, 1), thing("a", 1, 2)
	s := &segment{events: []event{{Type: Update, Old: old, Object: now}}}
	for b.Loop() {
		box.offer(s)
	}
}

// The undelivered events of a handler with the policy Coalesce take one entry per object and do not
// hold the log, even before the end of the initial list.
func TestL09_ACoalescingHandlerHoldsNoLog(t *testing.T) {
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			from, block := newFixed(things(3)...), make(chan struct{})
			i := informerOf(from, Options{})
			join := func() {
				i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error { <-block; return nil }), HandlerOptions{Lag: Coalesce})
			}
			if early {
				join()
			}
			defer runFor(t, i)()
			defer close(block)
			for !i.HasSynced() {
				synctest.Wait()
				time.Sleep(time.Millisecond)
			}
			if !early {
				join()
			}
			synctest.Wait()
			var states []weak.Pointer[metav1.PartialObjectMetadata]
			for rv := 20; rv < 120; rv++ {
				from.change("t1", 101, rv)
				synctest.Wait()
				cached, _ := i.Cache().Get(object.Key{Name: "t1"})
				states = append(states, weak.Make(cached))
			}
			runtime.GC()
			held := 0
			for _, s := range states {
				if s.Value() != nil {
					held++
				}
			}
			require.LessOrEqual(t, held, 3, "early %v: states that are held of 100", early)
		})
	}
}

// A handler with the policy Coalesce that blocks in a call must not keep alive intermediate states
// that it will never receive.
func TestL09_CoalesceDropsIntermediateStates(t *testing.T) {
	i := New[partial](quiet{}, Options{Initial: reflector.List})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	require.NoError(t, i.WaitForSync(ctx))

	called, release := make(chan struct{}), make(chan struct{})
	first := true
	i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error {
		if first {
			first = false
			close(called)
			<-release
		}
		return nil
	}), HandlerOptions{Lag: Coalesce})

	const changes = 20
	var states []weak.Pointer[metav1.PartialObjectMetadata]
	for n := range changes {
		o := thing("a", 1, n+2)
		states = append(states, weak.Make(o))
		i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Updated, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion})
		require.NoError(t, i.WaitForRV(ctx, strconv.Itoa(n+2)))
		if n == 0 {
			<-called
		}
	}
	runtime.GC()
	runtime.GC()
	held := 0
	for _, s := range states {
		if s.Value() != nil {
			held++
		}
	}
	// The event in delivery, the old and new state of the pending entry, and the objects of the
	// cache and the end of the log.
	require.LessOrEqual(t, held, 5, "of %d states", changes)
	close(release)
	cancel()
	require.NoError(t, <-ended)
}
