package sharedinformer

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// empty is a source that lists nothing and watches for ever.
type empty struct{}

func (empty) List(context.Context, metav1.ListOptions) source.List[*corev1.Pod] {
	return source.List[*corev1.Pod]{Meta: &metav1.ListMeta{ResourceVersion: "1"}, Items: func(func(*corev1.Pod, error) bool) {}}
}

func (empty) Watch(ctx context.Context, _ metav1.ListOptions) (iter.Seq2[wire.Event[*corev1.Pod], error], error) {
	return func(func(wire.Event[*corev1.Pod], error) bool) { <-ctx.Done() }, nil
}

// twin is one of two informers to which the same happens.
type twin struct {
	*Informer[*corev1.Pod]
	apply  func([]deltafifo.Delta[*corev1.Pod])
	byNode *indexer.Index[*corev1.Pod, string]
	heard  [][]string // by handler
	joined []*Registration
	gates  []chan struct{}
}

func newTwin(t *testing.T, of Store) *twin {
	w := &twin{Informer: New(empty{}, Options{Store: of, Initial: reflector.List, DetectMutations: time.Hour})}
	if of == Whole {
		w.apply = w.whole.handleDeltas
		return w
	}
	w.apply = func(deltas []deltafifo.Delta[*corev1.Pod]) {
		pack := func(o *corev1.Pod) *wire.Packed[*corev1.Pod] {
			if o == nil {
				return nil
			}
			p, err := w.packed.by.Pack(o)
			require.NoError(t, err)
			return p
		}
		var packed []deltafifo.Delta[*wire.Packed[*corev1.Pod]]
		for _, d := range deltas {
			p := deltafifo.Delta[*wire.Packed[*corev1.Pod]]{Type: d.Type, Late: d.Late, Anew: d.Anew, Key: d.Key, Object: pack(d.Object), RV: d.RV}
			for _, item := range d.Items {
				p.Items = append(p.Items, pack(item))
			}
			packed = append(packed, p)
		}
		w.packed.handleDeltas(packed)
	}
	return w
}

// join adds a handler that makes one call each time that its gate lets it, or at any time.
func (w *twin) join(lag Lag, gated, heads bool) {
	n := len(w.heard)
	w.heard = append(w.heard, nil)
	gate := make(chan struct{}, 1)
	w.gates = append(w.gates, gate)
	wait := func(ctx context.Context) {
		if gated {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
	}
	opts := HandlerOptions{Lag: lag, Resync: time.Hour}
	if heads {
		w.joined = append(w.joined, w.AddHeadHandler(HandlerFunc[object.Head](func(ctx context.Context, e Event[object.Head]) error {
			wait(ctx)
			w.heard[n] = append(w.heard[n], fmt.Sprintf("%s initial %t unknown %t: %s, was %s", e.Type, e.Initial, e.FinalStateUnknown, sayHead(e.Object), sayHead(e.Old)))
			return nil
		}), opts))
		return
	}
	w.joined = append(w.joined, w.AddHandlerWith(HandlerFunc[*corev1.Pod](func(ctx context.Context, e Event[*corev1.Pod]) error {
		wait(ctx)
		w.heard[n] = append(w.heard[n], fmt.Sprintf("%s initial %t unknown %t: %s, was %s", e.Type, e.Initial, e.FinalStateUnknown, say(e.Object), say(e.Old)))
		return nil
	}), opts))
}

// sayHead is all that there is of a head.
func sayHead(h object.Head) string {
	if h == nil {
		return "nothing"
	}
	return fmt.Sprint(object.KeyOf(h), h.GetUID(), h.GetResourceVersion(), h.GetLabels(), h.GetOwnerReferences(), h.GetAnnotations())
}

// say is all that there is of a Pod.
func say(p *corev1.Pod) string {
	if p == nil {
		return "nothing"
	}
	return p.String()
}

// show is all that a reader can see.
func (w *twin) show() (all []string) {
	add := func(what string, seq iter.Seq[*corev1.Pod]) {
		var each []string
		for p := range seq {
			each = append(each, say(p))
		}
		slices.Sort(each)
		all = append(all, fmt.Sprint(what, each))
	}
	c := w.Cache()
	add("all", c.All())
	add("in a", c.Namespace("a"))
	add("even", c.Select(labels.SelectorFromSet(labels.Set{"half": "even"})))
	objects, rv := c.Snapshot()
	add("snapshot "+rv, objects)
	values := w.byNode.Values()
	slices.Sort(values)
	for _, v := range values {
		add(fmt.Sprint("node ", v, w.byNode.Len(v)), w.byNode.Get(v))
	}
	for n := range 4 {
		p, ok := c.Get(object.Key{Namespace: "a", Name: strconv.Itoa(n)})
		all = append(all, fmt.Sprint(say(p), ok))
	}
	s := w.Status()
	all = append(all, fmt.Sprint(c.Len(), c.RV(), s.Synced, s.Type, s.QueueDepth))
	for _, h := range s.Handlers {
		all = append(all, fmt.Sprintf("synced %t, pending %d, delivered %d, merged %d, errors %d", h.Synced, h.Pending, h.Delivered, h.Coalesced, h.Errors))
	}
	return all
}

// anyDelta is something that a server, even a mad one, may say.
func anyDelta(random *rand.Rand, rv int) deltafifo.Delta[*corev1.Pod] {
	pod := func() *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: string(rune('a' + random.IntN(2))), Name: strconv.Itoa(random.IntN(4)),
			UID: types.UID("u" + strconv.Itoa(random.IntN(2))), ResourceVersion: strconv.Itoa(rv - random.IntN(2)*random.IntN(9)),
		}}
		p.Spec.NodeName = "n" + strconv.Itoa(random.IntN(3))
		p.Status.Message = strconv.Itoa(random.IntN(3))
		if random.IntN(2) == 0 {
			p.Labels = map[string]string{"half": "even"}
		}
		return p
	}
	d := deltafifo.Delta[*corev1.Pod]{Type: deltafifo.Type(1 + random.IntN(6)), RV: strconv.Itoa(rv)}
	switch d.Type {
	case deltafifo.Added, deltafifo.Updated, deltafifo.Deleted:
		d.Object, d.Late = pod(), random.IntN(6) == 0
		d.Key = object.KeyOf(d.Object)
	case deltafifo.Replaced:
		if random.IntN(4) > 0 { // not so often
			return deltafifo.Delta[*corev1.Pod]{Type: deltafifo.Bookmark, RV: strconv.Itoa(rv)}
		}
		d.Anew = random.IntN(3) == 0
		have := map[object.Key]bool{}
		for range random.IntN(8) {
			if p := pod(); !have[object.KeyOf(p)] {
				have[object.KeyOf(p)] = true
				d.Items = append(d.Items, p)
			}
		}
	}
	return d
}

// Whatever comes, and whoever joins, leaves, lags and looks: a packed informer tells and
// shows what a whole one does.
func TestC01_PackedIsInvisible(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			both := []*twin{newTwin(t, Whole), newTwin(t, Packed)}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			for _, w := range both {
				go func() { ended <- w.Run(ctx) }()
			}
			synctest.Wait()
			rv := 10
			for step := range 60 {
				rv += random.IntN(3)
				var deltas []deltafifo.Delta[*corev1.Pod]
				for range 1 + random.IntN(4) {
					deltas = append(deltas, anyDelta(random, rv))
				}
				what, lag, which, gated := random.IntN(12), Lag(random.IntN(2)), random.IntN(8), random.IntN(2) == 0
				for _, w := range both {
					if step == 20 {
						w.byNode = AddIndex(w.Informer, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
					}
					switch n := which % max(len(w.joined), 1); {
					case what < 2:
						w.join(lag, gated, what == 1)
					case what == 2 && len(w.joined) > 0:
						w.joined[n].Close()
					case what < 6 && len(w.joined) > 0:
						select {
						case w.gates[n] <- struct{}{}:
						default:
						}
					}
					synctest.Wait() // what the handlers have taken by now is not left to chance
					w.apply(slices.Clone(deltas))
				}
				if what == 7 {
					runtime.GC()
				}
				if step%15 == 14 {
					time.Sleep(61 * time.Minute) // a resync
				}
				synctest.Wait()
				require.Equal(t, both[0].heard, both[1].heard, "seed %d, step %d", seed, step)
				if step >= 20 {
					require.Equal(t, both[0].show(), both[1].show(), "seed %d, step %d", seed, step)
				}
			}
			cancel()
			require.NoError(t, <-ended)
			require.NoError(t, <-ended)
		})
	}
}

// A handler of heads has no object opened, nor has anybody who looks at heads alone.
func TestHeadsOpenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTwin(t, Packed)
		opened := 0
		w.packed.by.OnOpen(func(*wire.Packed[*corev1.Pod], *corev1.Pod) { opened++ })
		heard := 0
		w.AddHeadHandler(HandlerFunc[object.Head](func(_ context.Context, e Event[object.Head]) error {
			require.Equal(t, "a", e.Object.GetNamespace())
			heard++
			return nil
		}), HandlerOptions{Resync: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		for n := range 10 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: strconv.Itoa(n % 5), UID: "u", ResourceVersion: strconv.Itoa(2 + n)}}
			w.apply([]deltafifo.Delta[*corev1.Pod]{{Type: deltafifo.Updated, Key: object.KeyOf(p), Object: p}})
		}
		synctest.Wait()
		require.Equal(t, 10, heard)
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		require.Equal(t, 15, heard)
		require.Empty(t, slices.Collect(w.Cache().Select(labels.SelectorFromSet(labels.Set{"half": "even"}))))
		require.Zero(t, opened)
		_, ok := w.Cache().Get(object.Key{Namespace: "a", Name: "1"})
		require.True(t, ok)
		require.Equal(t, 1, opened)
		cancel()
		require.NoError(t, <-ended)
	})
}
