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

// empty is a source that lists nothing and watches forever.
type empty struct{}

func (empty) Describe() source.Description { return source.Description{} }

func (empty) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "1"}, Items: func(func(object.Head, error) bool) {}}
}

func (empty) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(func(wire.Event[object.Head], error) bool) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(*opts.TimeoutSeconds)*time.Second)
		defer cancel()
		<-ctx.Done()
	}, nil
}

// pooled is an empty source whose objects share parts. So both states of an update are opened
// together if neither is in use.
type pooled struct {
	empty
	pool *wire.Pool
}

func (p pooled) Describe() source.Description { return source.Description{Pool: p.pool} }

// twin is one of two informers that receive the same events.
type twin struct {
	*Informer[*corev1.Pod]
	apply  func([]deltafifo.Delta)
	byNode *indexer.Index[*corev1.Pod, string]
	heard  [][]string // by handler
	joined []*Registration
	gates  []chan struct{}
}

func newTwin(t *testing.T, of Store) *twin {
	return newTwinWith(t, Options{Store: of, Initial: reflector.List, DetectMutations: time.Hour})
}

func newTwinWith(t *testing.T, opts Options) *twin { return newTwinOf(t, empty{}, opts) }

func newTwinOf(t *testing.T, from source.ListerWatcher, opts Options) *twin {
	of := opts.Store
	w := &twin{Informer: New[*corev1.Pod](from, opts)}
	if of == Whole {
		w.apply = w.core.(*core).handleDeltas
		return w
	}
	w.apply = func(deltas []deltafifo.Delta) {
		pack := func(o object.Head) object.Head {
			if o == nil {
				return nil
			}
			p, err := w.core.(*core).packing.packer.Pack(o.(*corev1.Pod))
			require.NoError(t, err)
			return p
		}
		var packed []deltafifo.Delta
		for _, d := range deltas {
			p := deltafifo.Delta{Type: d.Type, Late: d.Late, NewHistory: d.NewHistory, Key: d.Key, Object: pack(d.Object), RV: d.RV}
			for _, item := range d.Items {
				p.Items = append(p.Items, pack(item))
			}
			packed = append(packed, p)
		}
		w.core.(*core).handleDeltas(packed)
	}
	return w
}

// handlerForm is the kind of a handler.
type handlerForm int

const (
	ofObjects handlerForm = iota
	ofHeads
	ofHeadsOpened
	withoutOld
	ofFuncs
	handlerForms
)

// join adds a handler that makes a call each time its gate opens, or at any time.
func (w *twin) join(lag Lag, gated bool, as handlerForm) {
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
	switch as {
	case ofHeads:
		w.joined = append(w.joined, w.AddHeadHandler(HandlerFunc[object.Head](func(ctx context.Context, e Event[object.Head]) error {
			wait(ctx)
			w.heard[n] = append(w.heard[n], fmt.Sprintf("%s initial %t unknown %t: %s, was %s", e.Type, e.Initial, e.FinalStateUnknown, sayHead(e.Object), sayHead(e.Old)))
			return nil
		}), opts))
		return
	case ofHeadsOpened:
		w.joined = append(w.joined, w.AddHeadHandler(HandlerFunc[object.Head](func(ctx context.Context, e Event[object.Head]) error {
			wait(ctx)
			o, err := w.OpenEvent(e)
			w.heard[n] = append(w.heard[n], fmt.Sprintf("%s initial %t unknown %t: %s, was %s, %v", o.Type, o.Initial, o.FinalStateUnknown, say(o.Object), say(o.Old), err))
			return nil
		}), opts))
		return
	case ofFuncs:
		hear := func(ctx context.Context, what string, args ...any) error {
			wait(ctx)
			w.heard[n] = append(w.heard[n], what+fmt.Sprint(args...))
			return nil
		}
		w.joined = append(w.joined, w.AddHandlerWith(HandlerFuncs[*corev1.Pod]{
			Update: func(ctx context.Context, old, new *corev1.Pod) error { return hear(ctx, "update ", say(old), say(new)) },
			Delete: func(ctx context.Context, o *corev1.Pod, unknown bool) error {
				return hear(ctx, "delete ", say(o), unknown)
			},
		}, opts))
		return
	}
	opts.WithoutOld = as == withoutOld
	w.joined = append(w.joined, w.AddHandlerWith(HandlerFunc[*corev1.Pod](func(ctx context.Context, e Event[*corev1.Pod]) error {
		wait(ctx)
		w.heard[n] = append(w.heard[n], fmt.Sprintf("%s initial %t unknown %t: %s, was %s", e.Type, e.Initial, e.FinalStateUnknown, say(e.Object), say(e.Old)))
		return nil
	}), opts))
}

// outdate displaces the recently opened objects that stay in use.
func (w *twin) outdate(t *testing.T) {
	for i := range 100 {
		packed, err := w.core.(*core).packing.packer.Pack(podOf(i, 1))
		require.NoError(t, err)
		_, err = packed.Open()
		require.NoError(t, err)
	}
}

// weigh compares the status of a packed cache with its contents.
func (w *twin) weigh(t *testing.T) {
	t.Helper()
	bytes, kept := 0, 0
	for p := range w.core.(*core).cache.Reader().All() {
		bytes += packedOf(p).Size()
		if packedOf(p).KeptWhole() {
			kept++
		}
	}
	s := w.Status()
	require.Equal(t, Packed, s.Store)
	require.EqualValues(t, bytes, s.Packed.Bytes)
	require.Equal(t, kept, s.Packed.Kept)
}

// sayHead formats everything in a head.
func sayHead(h object.Head) string {
	if h == nil {
		return "nothing"
	}
	return fmt.Sprint(object.KeyOf(h), h.GetUID(), h.GetResourceVersion(), h.GetGeneration(), h.GetDeletionTimestamp(), h.GetLabels(), h.GetOwnerReferences(), h.GetAnnotations())
}

// say formats everything in a Pod.
func say(p *corev1.Pod) string {
	if p == nil {
		return "nothing"
	}
	return p.String()
}

// show returns everything that a reader can see.
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
	heads := func(what string, seq iter.Seq[object.Head]) {
		var each []string
		for h := range seq {
			each = append(each, sayHead(h))
		}
		slices.Sort(each)
		all = append(all, fmt.Sprint(what, each))
	}
	h := w.Heads()
	heads("heads", h.All())
	heads("heads in a", h.Namespace("a"))
	heads("even heads", h.Select(labels.SelectorFromSet(labels.Set{"half": "even"})))
	_, rv = h.Snapshot()
	one, ok := h.Get(object.Key{Namespace: "a", Name: "1"})
	all = append(all, fmt.Sprint(h.Len(), h.RV(), rv, ok, sayHead(one)))
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

// anyDelta returns anything that a server, even a broken one, may send.
func anyDelta(random *rand.Rand, rv int) deltafifo.Delta {
	pod := func() *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: string(rune('a' + random.IntN(2))), Name: strconv.Itoa(random.IntN(4)),
			UID: types.UID("u" + strconv.Itoa(random.IntN(2))), ResourceVersion: strconv.Itoa(rv - random.IntN(2)*random.IntN(9)),
		}}
		p.Generation = int64(random.IntN(3))
		if random.IntN(8) == 0 { // which does not survive packing
			p.CreationTimestamp = metav1.NewTime(time.Unix(5, 5))
		}
		if random.IntN(4) == 0 {
			p.DeletionTimestamp = new(metav1.NewTime(time.Unix(int64(random.IntN(2)), 0)))
		}
		p.Spec.NodeName = "n" + strconv.Itoa(random.IntN(3))
		p.Status.Message = strconv.Itoa(random.IntN(3))
		if random.IntN(2) == 0 {
			p.Labels = map[string]string{"half": "even"}
		}
		return p
	}
	d := deltafifo.Delta{Type: deltafifo.Type(1 + random.IntN(6)), RV: strconv.Itoa(rv)}
	switch d.Type {
	case deltafifo.Added, deltafifo.Updated, deltafifo.Deleted:
		d.Object, d.Late = pod(), random.IntN(6) == 0
		d.Key = object.KeyOf(d.Object)
	case deltafifo.Replaced:
		if random.IntN(4) > 0 { // not so often
			return deltafifo.Delta{Type: deltafifo.Bookmark, RV: strconv.Itoa(rv)}
		}
		d.NewHistory = random.IntN(3) == 0
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

// Whatever events come, and whichever handlers join, leave, lag and read, a packed informer delivers and
// shows the same as an informer of whole objects.
func TestC01_PackedIsInvisible(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			both := []*twin{newTwin(t, Whole), newTwin(t, Packed)}
			if seed%2 == 1 { // nothing is opened together while mutations are detected
				both[1] = newTwinOf(t, pooled{pool: wire.NewPool()}, Options{Store: Packed, Initial: reflector.List})
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			for _, w := range both {
				go func() { ended <- w.Run(ctx) }()
			}
			synctest.Wait()
			rv := 10
			for step := range 60 {
				rv += random.IntN(3)
				var deltas []deltafifo.Delta
				for range 1 + random.IntN(4) {
					deltas = append(deltas, anyDelta(random, rv))
				}
				what, lag, which, gated := random.IntN(12), Lag(random.IntN(2)), random.IntN(8), random.IntN(2) == 0
				form := handlerForm(random.IntN(int(handlerForms)))
				for _, w := range both {
					if step == 20 {
						w.byNode = AddIndex(w.Informer, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
					}
					switch n := which % max(len(w.joined), 1); {
					case what < 2:
						w.join(lag, gated, form)
					case what == 2 && len(w.joined) > 0:
						w.joined[n].Close()
					case what < 6 && len(w.joined) > 0:
						select {
						case w.gates[n] <- struct{}{}:
						default:
						}
					}
					synctest.Wait() // make the number of delivered events deterministic
					w.apply(slices.Clone(deltas))
				}
				if what == 7 {
					both[1].outdate(t)
					runtime.GC()
				}
				if step%15 == 14 {
					time.Sleep(61 * time.Minute) // a resync
				}
				synctest.Wait()
				require.Equal(t, both[0].heard, both[1].heard, "seed %d, step %d", seed, step)
				both[1].weigh(t)
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

// Handlers and readers of heads open no objects.
func TestHeadsDecodeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTwinWith(t, Options{Store: Packed, Initial: reflector.List, Annotations: []string{"wanted"}})
		opened := 0
		w.core.(*core).packing.packer.OnOpen(func(*wire.Packed, object.Object) { opened++ })
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
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: strconv.Itoa(n % 5), UID: "u", ResourceVersion: strconv.Itoa(2 + n), Annotations: map[string]string{"wanted": "yes", "other": "no"}}}
			w.apply([]deltafifo.Delta{{Type: deltafifo.Updated, Key: object.KeyOf(p), Object: p}})
		}
		synctest.Wait()
		require.Equal(t, 10, heard)
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		require.Equal(t, 15, heard)
		require.Empty(t, slices.Collect(w.Cache().Select(labels.SelectorFromSet(labels.Set{"half": "even"}))))
		require.Len(t, slices.Collect(w.Heads().All()), 5)
		require.Len(t, slices.Collect(w.Heads().Namespace("a")), 5)
		for h := range w.Heads().All() {
			value, ok := object.Annotation(h, "wanted")
			require.True(t, ok)
			require.Equal(t, "yes", value)
		}
		require.Zero(t, opened)
		index := AddIndex(w.Informer, "half", func(p *corev1.Pod) []string { return []string{p.Annotations["wanted"]} })
		require.Equal(t, 5, opened)
		copies := 0
		for h := range index.Heads("yes") {
			copied, err := w.Copy(h)
			require.NoError(t, err)
			copied.Annotations["wanted"] = "changed"
			copies++
		}
		require.Equal(t, 5, copies)
		require.Equal(t, 5, opened)
		p, ok := w.Cache().Get(object.Key{Namespace: "a", Name: "1"})
		require.True(t, ok)
		require.Equal(t, "yes", p.Annotations["wanted"])
		cancel()
		require.NoError(t, <-ended)
	})
}

// A packed cache opens only those objects of a change that the handler reads.
func TestHandlerDecodesOnlyWhatItReads(t *testing.T) {
	const n = 100 // more than stay in use
	ignore := func(context.Context, *corev1.Pod, bool) error { return nil }
	for name, tc := range map[string]struct {
		handler            Handler[*corev1.Pod]
		opts               HandlerOptions
		added, updated     int
		deleted, resynched int
	}{
		"func":        {HandlerFunc[*corev1.Pod](func(context.Context, Event[*corev1.Pod]) error { return nil }), HandlerOptions{}, n, 2 * n, 2 * n, n},
		"without old": {HandlerFunc[*corev1.Pod](func(context.Context, Event[*corev1.Pod]) error { return nil }), HandlerOptions{WithoutOld: true}, n, n, n, n},
		"add":         {HandlerFuncs[*corev1.Pod]{Add: ignore}, HandlerOptions{}, n, 0, 0, 0},
		"delete":      {HandlerFuncs[*corev1.Pod]{Delete: ignore}, HandlerOptions{}, 0, 0, n, 0},
		"update":      {HandlerFuncs[*corev1.Pod]{Update: func(_ context.Context, old, new *corev1.Pod) error { return nil }}, HandlerOptions{}, 0, 2 * n, 0, n},
		"nothing":     {HandlerFuncs[*corev1.Pod]{}, HandlerOptions{}, 0, 0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTwinWith(t, Options{Store: Packed, Initial: reflector.List})
			tc.opts.Resync = time.Hour
			w.AddHandlerWith(tc.handler, tc.opts)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			synctest.Wait()
			opened := func(what string, do func()) int {
				before := w.core.(*core).packing.packer.Opened()
				do()
				synctest.Wait()
				made := w.core.(*core).packing.packer.Opened() - before
				w.outdate(t)
				runtime.GC()
				return int(made)
			}
			all := func(as deltafifo.Type, rv int) func() {
				return func() {
					for i := range n {
						p := podOf(i, rv)
						w.apply([]deltafifo.Delta{{Type: as, Key: object.KeyOf(p), Object: p}})
					}
				}
			}
			require.Equal(t, tc.added, opened("add", all(deltafifo.Added, 2)), name)
			require.Equal(t, tc.updated, opened("update", all(deltafifo.Updated, 3)), name)
			require.Equal(t, tc.resynched, opened("resync", func() { time.Sleep(61 * time.Minute) }), name)
			require.Equal(t, tc.deleted, opened("delete", all(deltafifo.Deleted, 4)), name)
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

func TestAFilterWithoutOldSaysSo(t *testing.T) {
	w := newTwin(t, Whole)
	d := w.core.(*core).addDelivery(&oldDropper{next: untypedHandlerOf(Filter(func(*corev1.Pod) bool { return true }, Handler[*corev1.Pod](HandlerFuncs[*corev1.Pod]{})))}, HandlerOptions{})
	require.ErrorContains(t, d.handler.handle(t.Context(), &event{Type: Update, Object: podOf(0, 3), Old: podOf(0, 2)}), "WithoutOld")
	require.NoError(t, d.handler.handle(t.Context(), &event{Type: Delete, Object: podOf(0, 3), Old: podOf(0, 2)}))
}

func TestOpenRefusesForeignHeads(t *testing.T) {
	for _, of := range []Store{Whole, Packed} {
		w := newTwin(t, of)
		_, err := w.Open(&corev1.Node{})
		require.ErrorContains(t, err, "*v1.Node is not a head of")
		_, err = w.Open(nil)
		require.Error(t, err)
	}
}
