package sharedinformer

import (
	"context"
	"fmt"
	"math/rand/v2"
	gc "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// Readers, a writer, indexes and the collector run at once, and every read is complete.
func TestPackedUnderACollector(t *testing.T) {
	w := newTwinWithout(Packed)
	byNode := AddIndex(w.Informer, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	w.AddHandlerWith(HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
		if e.Object.Spec.NodeName != "n"+e.Object.ResourceVersion {
			t.Errorf("%s has %s", e.Object.ResourceVersion, e.Object.Spec.NodeName)
		}
		return nil
	}), HandlerOptions{Lag: Coalesce})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	require.NoError(t, w.WaitForSync(ctx))
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			gc.GC()
		}
	})
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				key := object.Key{Namespace: "a", Name: fmt.Sprint(rand.IntN(50))}
				a, ok := w.Cache().Get(key)
				b, still := w.Cache().Get(key)
				if ok && still && a.ResourceVersion == b.ResourceVersion && a != b {
					t.Error("two pointers at once")
				}
				if ok && a.Spec.NodeName != "n"+a.ResourceVersion {
					t.Error("mixed")
				}
				for _, v := range byNode.Values() {
					for p := range byNode.Get(v) {
						if p.Spec.NodeName != v {
							t.Error("index")
						}
					}
					break
				}
			}
		})
	}
	yes := true
	for rv := 2; ctx.Err() == nil; rv++ {
		p := podOf(rand.IntN(50), rv)
		p.Spec.NodeName = "n" + p.ResourceVersion
		p.Annotations = map[string]string{"long": strings.Repeat("some long text", 20)}
		if g := rand.IntN(4); g > 0 {
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(g, rv/500)), Controller: &yes}}
		}
		typ := deltafifo.Updated
		if rand.IntN(5) == 0 {
			typ = deltafifo.Deleted
		}
		// as the reflector does: pack elsewhere, apply here
		w.applyOne(typ, p)
	}
	all.Wait()
	require.NoError(t, <-ended)
}

func (w *twin) applyOne(typ deltafifo.Type, p *corev1.Pod) {
	w.apply([]deltafifo.Delta{{Type: typ, Key: object.KeyOf(p), Object: p}})
}

// All memory of removed objects is released.
func TestPackedReleasesDeletedObjects(t *testing.T) {
	w := newTwinWithout(Packed)
	yes := true
	before := heap()
	round := func(base int) {
		for n := range 3000 {
			p := podOf(n, base+n)
			p.Labels = map[string]string{"app": fmt.Sprint(base, n)}
			p.Annotations = map[string]string{"long": strings.Repeat(fmt.Sprint(n), 200)}
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(n, base)), Controller: &yes}}
			w.applyOne(deltafifo.Updated, p)
		}
		for n := range 3000 {
			w.applyOne(deltafifo.Deleted, podOf(n, base+5000+n))
		}
	}
	round(10)
	first := heap() - before
	for n := range 5 {
		round(20000 * (n + 1))
	}
	time.Sleep(50 * time.Millisecond)
	last := heap() - before
	t.Logf("held after one round %d KB, after six %d KB", first>>10, last>>10)
	require.Less(t, last-first, 1<<20)
	gc.KeepAlive(w)
}

func TestPackedHoldsLittleAfterManyUpdates(t *testing.T) {
	w := newTwinWithout(Packed)
	yes := true
	before := heap()
	for n := range 20_000 {
		p := podOf(0, 2+n)
		p.Annotations = map[string]string{"long": strings.Repeat(fmt.Sprint(n), 50)}
		p.OwnerReferences = []metav1.OwnerReference{{UID: "g", Controller: &yes}}
		w.applyOne(deltafifo.Updated, p)
	}
	held := heap() - before
	t.Logf("held %d KB", held>>10)
	require.Less(t, held, 4<<20)
	gc.KeepAlive(w)
}

// A handler that received large objects holds at most the last.
func TestPackedInformerKeepsNoDeletedLargeObjects(t *testing.T) {
	used := map[Store]int{}
	both(t, func(t *testing.T, of Store) {
		w := newTwinWithout(of)
		w.AddHandler(HandlerFunc[*corev1.Pod](func(context.Context, Event[*corev1.Pod]) error { return nil }))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		require.NoError(t, w.WaitForSync(ctx))
		before := heap()
		for n := range 64 {
			p := podOf(n, 2+n)
			p.Annotations = map[string]string{"long": strings.Repeat(fmt.Sprint(n), 500_000)}
			w.applyOne(deltafifo.Updated, p)
		}
		for n := range 64 {
			w.applyOne(deltafifo.Deleted, podOf(n, 200+n))
		}
		require.Eventually(t, func() bool { return w.Status().Handlers[0].Pending == 0 }, time.Minute, time.Millisecond)
		used[of] = heap() - before
		t.Logf("%d KB of nothing", used[of]>>10)
		cancel()
		require.NoError(t, <-ended)
		gc.KeepAlive(w)
	})
	require.Less(t, used[Packed], used[Whole]+8<<20)
}
