package clientgo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// estate is a share of two slots that the test grants and revokes.
type estate struct {
	shard.Share // for Enter

	mu      sync.Mutex
	slots   shard.Slots
	terms   map[int]uint64
	changed chan struct{}
}

func newEstate(slots ...int) *estate {
	e := &estate{terms: map[int]uint64{}, changed: make(chan struct{})}
	e.set(slots...)
	return e
}

// set changes the slots of the share.
func (e *estate) set(slots ...int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, slot := range slots {
		if !e.slots.Has(slot) {
			e.terms[slot]++
		}
	}
	e.slots = shard.NewSlots(2, slots...)
	close(e.changed)
	e.changed = make(chan struct{})
}

// Owned implements shard.Share.
func (e *estate) Owned() (shard.Slots, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.slots, e.changed
}

// Term implements shard.Share.
func (e *estate) Term(slot int) (shard.Token, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return shard.Token{Slot: slot, Epoch: e.terms[slot]}, e.slots.Has(slot)
}

// bySlot creates pods until each of two slots has three, and returns their names.
func (r *rig) bySlot() (names [2][]string) {
	for n := 0; len(names[0]) < 3 || len(names[1]) < 3; n++ {
		p := r.put(pod(fmt.Sprintf("p%02d", n)))
		slot := shard.SlotOf(shard.ByUID().Hash(p), 2)
		names[slot] = append(names[slot], p.Name)
	}
	return names
}

// all returns a line for each name.
func all(what string, names []string) (lines []string) {
	for _, name := range names {
		lines = append(lines, what+" "+name+"=web")
	}
	return lines
}

// moving is a diary that also receives moves.
type moving struct{ diary }

func (m *moving) OnMoved(o any) { m.note("moved %s", describe(o)) }

// brittle is a share that panics.
type brittle struct{ shard.Share }

func (brittle) Owned() (shard.Slots, <-chan struct{}) { panic("no share today") }

// A panicking share does not count as a failure of listing and watching.
func TestShareErrorIsNotAWatchError(t *testing.T) {
	defer func(before []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = before }(utilruntime.ErrorHandlers)
	on(t, stock, func(r *rig) {
		var mu sync.Mutex
		var general, watching []string
		utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) {
			mu.Lock()
			defer mu.Unlock()
			general = append(general, err.Error())
		}}
		i := clientgo.NewInformerFor(resource[object.Object](r), clientgo.ResourceOptions{Shard: shard.Scope{Key: shard.ByUID(), Share: &brittle{}}})
		require.NoError(r, i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			mu.Lock()
			defer mu.Unlock()
			watching = append(watching, err.Error())
		}))
		r.run(i)
		settle(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Empty(r, watching)
		require.NotEmpty(r, general)
	})
}

// An object that moves to another process is not deleted, and only handlers for moves receive it.
func TestS03_MovedObjectIsNotReportedAsDeleted(t *testing.T) {
	for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
		on(t, stock, func(r *rig) {
			names, share := r.bySlot(), newEstate(0)
			i := clientgo.NewInformerFor(resource[object.Object](r), clientgo.ResourceOptions{
				Shard: shard.Scope{Share: share}, Store: store, Tweak: func(*metav1.ListOptions) {},
			})
			plain, told := &diary{}, &moving{}
			var _ clientgo.MoveHandler = told
			for _, h := range []cache.ResourceEventHandler{plain, told} {
				_, err := i.AddEventHandler(h)
				require.NoError(r, err)
			}
			heard := func(ofBoth, ofMoves []string) {
				r.Helper()
				settle(time.Second)
				require.ElementsMatch(r, ofBoth, plain.read())
				require.ElementsMatch(r, append(slices.Clone(ofBoth), ofMoves...), told.read())
			}
			r.run(i)
			require.NoError(r, clientgo.WaitForSync(r.ctx, i))
			heard(all("initial", names[0]), nil)
			share.set(0, 1)
			heard(all("add", names[1]), nil)
			share.set(1)
			heard(nil, all("moved", names[0]))
			r.delete(names[1][0])
			heard([]string{"delete " + names[1][0] + "=web"}, nil)
			share.set(0)
			heard(all("add", names[0]), all("moved", names[1][1:]))

			// A missed deletion is not reported as a move.
			r.missing(func() { r.delete(names[0][0]) })
			heard([]string{"unknown end of shop/" + names[0][0] + ": " + names[0][0] + "=web"}, nil)
		})
	}
}

// An informer holds exactly the objects in its slots, in each form. A server that can select sends
// only those.
func TestS05_OnlyTheObjectsOfAShare(t *testing.T) {
	for name, informer := range map[string]func(r *rig, opts clientgo.ResourceOptions) cache.SharedIndexInformer{
		"any": func(r *rig, opts clientgo.ResourceOptions) cache.SharedIndexInformer {
			return clientgo.NewInformerFor(resource[object.Object](r), opts)
		},
		"typed": func(r *rig, opts clientgo.ResourceOptions) cache.SharedIndexInformer {
			return clientgo.NewInformerFor(resource[*corev1.Pod](r), opts)
		},
		"unstructured": func(r *rig, opts clientgo.ResourceOptions) cache.SharedIndexInformer {
			return clientgo.NewInformerFor(resource[*unstructured.Unstructured](r), opts)
		},
		"metadata": func(r *rig, opts clientgo.ResourceOptions) cache.SharedIndexInformer {
			return clientgo.NewInformerFor(resource[*metav1.PartialObjectMetadata](r), opts)
		},
	} {
		for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
			for _, tweak := range []func(*metav1.ListOptions){nil, func(*metav1.ListOptions) {}} {
				for _, selects := range []bool{false, true} {
					onServer(t, side{name: fmt.Sprintf("%s, %v, tweaked %t, selected %t", name, store, tweak != nil, selects)}, apiservertest.Options{ShardSelectors: selects}, func(r *rig) {
						names, share := r.bySlot(), newEstate(1)
						i := informer(r, clientgo.ResourceOptions{Shard: shard.Scope{Share: share}, Store: store, Tweak: tweak})
						holding, ok := clientgo.HoldingOf(i)
						require.True(r, ok)
						require.Same(r, share, holding.Scope().Share)
						ours, theirs := uint64(1<<63), uint64(0)
						require.False(r, holding.Holds(ours), "it does not run")
						r.run(i)
						require.NoError(r, clientgo.WaitForSync(r.ctx, i))
						require.Equal(r, inShop(names[1]), keys(i.GetStore()))
						require.True(r, holding.Holds(ours))
						require.False(r, holding.Holds(theirs))
						s, _ := clientgo.Status(i)
						if !selects {
							require.Equal(r, shard.SelectionByClient, s.Selection)
						}

						r.label(names[0][0], "db") // the watch delivers this unless the server selects
						r.label(names[1][0], "db")
						settle(time.Second)
						require.Equal(r, inShop(names[1]), keys(i.GetStore()))
						share.set(0)
						settle(time.Second)
						require.Equal(r, inShop(names[0]), keys(i.GetStore()))
						require.False(r, holding.Holds(ours))
						require.True(r, holding.Holds(theirs))
						if s, _ := clientgo.Status(i); selects { // according to the last list
							require.Equal(r, shard.SelectionByServer, s.Selection)
						}
					})
				}
			}
		}
	}
}

func inShop(names []string) (keys []string) {
	for _, name := range names {
		keys = append(keys, "shop/"+name)
	}
	return keys
}

// A shard key that reads a field changed by a transform is refused.
func TestAShareOfTransformedObjects(t *testing.T) {
	for key, want := range map[*shard.Key]string{
		new(shard.ByLabel("app")): "objects go through a transform",
		new(shard.ByUID()):        "",
	} {
		on(t, stock, func(r *rig) {
			r.put(pod("a"))
			i := clientgo.NewInformerFor(resource[*corev1.Pod](r), clientgo.ResourceOptions{Shard: shard.Scope{Key: *key, Share: newEstate(0, 1)}})
			require.NoError(r, i.SetTransform(func(o any) (any, error) { return o, nil }))
			r.run(i)
			ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
			defer cancel()
			err := clientgo.WaitForSync(ctx, i)
			if want == "" {
				require.NoError(r, err)
				return
			}
			require.ErrorContains(r, err, want)
		})
	}
}

// A shard key that reads a dropped field is refused, in each form.
func TestShardKeyNeedsAFieldThatIsNotKept(t *testing.T) {
	on(t, stock, func(r *rig) {
		without := wire.Without("metadata.labels")
		opts := clientgo.ResourceOptions{Shard: shard.Scope{Key: shard.ByLabel("app"), Share: newEstate(0, 1)}}
		tweaked := opts
		tweaked.Tweak = func(*metav1.ListOptions) {}
		for _, i := range []cache.SharedIndexInformer{
			clientgo.NewInformerFor(resource[object.Object](r).Keep(without), opts),
			clientgo.NewInformerFor(resource[object.Object](r).Keep(without), tweaked),
			clientgo.NewInformerFor(resource[*metav1.PartialObjectMetadata](r).Keep(without), tweaked),
		} {
			r.run(i)
			require.ErrorContains(r, clientgo.WaitForSync(r.ctx, i), "needs metadata.labels, which is not kept")
		}
	})
}

func TestHoldingOfAnotherInformer(t *testing.T) {
	on(t, stock, func(r *rig) {
		_, ok := clientgo.HoldingOf(r.pods(0))
		require.False(r, ok)
	})
	on(t, adapted[1], func(r *rig) {
		i := r.pods(0)
		holding, ok := clientgo.HoldingOf(i)
		require.True(r, ok)
		require.True(r, holding.Scope().Everything())
		r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		r.run(i)
		require.False(r, holding.Holds(0), "it has not synced")
	})
}
