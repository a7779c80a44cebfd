package laws

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// alike creates n pods on the server that differ only in name and version.
func (r *rig) alike(n int) {
	r.Helper()
	for k := range n {
		p := pod(fmt.Sprintf("p%d", k))
		seconds := int64(30)
		p.Spec.TerminationGracePeriodSeconds = &seconds
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example/app:1", Env: []corev1.EnvVar{{Name: "MODE", Value: "production"}}}}
		r.put(p)
	}
}

func get(i *sharedinformer.Informer[*corev1.Pod], name string) *corev1.Pod {
	p, _ := i.Cache().Get(object.Key{Namespace: "shop", Name: name})
	return p
}

func held(i *sharedinformer.Informer[*corev1.Pod]) map[string]*corev1.Pod {
	all := map[string]*corev1.Pod{}
	for p := range i.Cache().All() {
		all[p.Name] = p
	}
	return all
}

// Unchanged objects keep their pointers after the history was lost, while the informer ran or while it was
// stopped. Changes are delivered (L24).
func TestL12_RelistKeepsUnchangedObjects(t *testing.T) {
	for name, opts := range map[string]sharedinformer.Options{"list": listing(), "stream": streaming(), "pages": paged()} {
		for _, transformed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, transformed %v", name, transformed), func(t *testing.T) {
				inBubble(t, apiservertest.Options{}, func(r *rig) {
					r.alike(5)
					f := newFactory(r.client, factory.Options{Initial: opts.Initial, PageSize: opts.PageSize})
					var of forPods
					calls := 0
					if transformed {
						of.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
							calls++
							p.Labels = map[string]string{"calls": fmt.Sprint(calls)}
							return p, nil
						}
					}
					i := factory.InformerWith(f, of)
					h := record(r, i)
					i.AddHandler(h)
					stop := r.run(i)
					require.NoError(r, i.WaitForSync(r.ctx))
					for n, missed := range []func(func()){r.lose, func(change func()) {
						stop()
						change()
						r.srv.Compact()
						stop = r.run(i)
						settle(2 * time.Minute)
					}} {
						before := held(i)
						h.heard()
						calls = 0
						missed(func() {
							r.put(pod("p1", fmt.Sprint("n=", n)))
							r.delete("p2")
							r.put(pod("p2"))
						})
						require.EqualValues(r, n+1, i.Status().Reflector.Relists)
						require.Equal(r, []string{"delete p2 unknown", "update p1", "add p2"}, h.heard())
						after := held(i)
						for _, name := range []string{"p0", "p3", "p4"} {
							require.Same(r, before[name], after[name])
						}
						require.NotSame(r, before["p1"], after["p1"])
						require.NotSame(r, before["p2"], after["p2"])
						if transformed {
							require.Equal(r, 2, calls, "the transform sees what changed and nothing else")
						}
						r.inStep(i)
					}
					stop()
				})
			})
		}
	}
}

// The informers of a factory share parts by default. A transform may change its argument, but that must
// not change the objects of other informers.
func TestW03_InformersOfAFactoryShareParts(t *testing.T) {
	wholeAlone(t)
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.alike(5)
		shares := func(opts factory.Options, one, other forPods) bool {
			f, stop := r.started(opts)
			defer stop()
			a, b := factory.InformerWith(f, one), factory.InformerWith(f, other)
			require.NoError(r, f.WaitForSync(r.ctx))
			return &get(a, "p4").Spec.Containers[0] == &get(b, "p3").Spec.Containers[0]
		}
		in := func(namespace string) forPods { return forPods{Scope: podScope{Namespaces: []string{namespace}}} }
		require.True(r, shares(factory.Options{}, in(""), in("")), "within one informer")
		require.True(r, shares(factory.Options{}, in(""), in("shop")), "between two")
		require.False(r, shares(factory.Options{NoSharing: true}, in(""), in("")))
		require.False(r, shares(factory.Options{NoSharing: true}, in(""), in("shop")))
		across := func(opts factory.Options) bool {
			f, stop := r.started(opts)
			defer stop()
			other, stopOther := r.started(opts)
			defer stopOther()
			a, b := factory.InformerWith(f, in("")), factory.InformerWith(other, in(""))
			require.NoError(r, f.WaitForSync(r.ctx))
			require.NoError(r, other.WaitForSync(r.ctx))
			return &get(a, "p4").Spec.Containers[0] == &get(b, "p3").Spec.Containers[0]
		}
		require.False(r, across(factory.Options{}), "each factory has a pool of its own")
		require.True(r, across(factory.Options{Pool: wire.NewPool()}), "unless it was given one")
		require.False(r, across(factory.Options{Pool: wire.NewPool(), NoSharing: true}))
		shouting := in("shop")
		shouting.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Spec.Containers[0].Env[0].Value = "shout"
			return p, nil
		}
		f, stop := r.started(factory.Options{})
		defer stop()
		plain, loud := factory.InformerWith(f, in("")), factory.InformerWith(f, shouting)
		require.NoError(r, f.WaitForSync(r.ctx))
		for name := range held(plain) {
			require.Equal(r, "production", get(plain, name).Spec.Containers[0].Env[0].Value)
			require.Equal(r, "shout", get(loud, name).Spec.Containers[0].Env[0].Value)
		}
	})
}

// Objects that packed caches decode share as many parts as whole objects of the factory do.
func TestW03_OpenedObjectsShareParts(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.alike(6)
		across := func(opts factory.Options) (within, between bool) {
			opts.Store = sharedinformer.Packed
			f, stop := r.started(opts)
			defer stop()
			a, b := factory.Informer[*corev1.Pod](f), factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"shop"}}})
			require.NoError(r, f.WaitForSync(r.ctx))
			part := func(i *sharedinformer.Informer[*corev1.Pod], name string) *corev1.Container {
				return &get(i, name).Spec.Containers[0]
			}
			for n := range 6 { // a part is known from its second use on
				part(a, fmt.Sprint("p", n))
			}
			return part(a, "p4") == part(a, "p5"), part(a, "p4") == part(b, "p3")
		}
		within, between := across(factory.Options{})
		require.True(r, within)
		require.True(r, between)
		within, between = across(factory.Options{NoSharing: true})
		require.False(r, within)
		require.False(r, between)
	})
}

// A change of a part shared by many objects is reported once: the report names the object of the culprit's
// event, and the number of objects affected.
func TestL16_AChangeOfASharedPartIsReportedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		path   string
		same   func(a, b *corev1.Pod) bool // whether both share the changed part
	}{
		"element": {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mine" }, ".Spec.Containers[0].Image",
			func(a, b *corev1.Pod) bool { return &a.Spec.Containers[0] == &b.Spec.Containers[0] }},
		"small number": {func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 1 }, ".Spec.TerminationGracePeriodSeconds",
			func(a, b *corev1.Pod) bool {
				return a.Spec.TerminationGracePeriodSeconds == b.Spec.TerminationGracePeriodSeconds
			}},
		"nothing shared":  {func(p *corev1.Pod) { p.Spec.NodeName = "mine" }, ".Spec.NodeName", nil},
		"replaced part":   {func(p *corev1.Pod) { p.Spec.Containers = nil }, ".Spec.Containers", nil},
		"replaced number": {func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64) }, ".Spec.TerminationGracePeriodSeconds", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.alike(4)
				reported := &failures{}
				opts := streaming()
				opts.OnError, opts.DetectMutations = reported.handle, time.Hour
				i := r.informer(opts)
				i.AddHandlerWith(sharedinformer.HandlerFuncs[*corev1.Pod]{}, sharedinformer.HandlerOptions{Name: "innocent"})
				stop := r.run(i)
				require.NoError(r, i.WaitForSync(r.ctx))
				others := 0
				for name, p := range held(i) {
					if tc.same != nil && name != "p3" && tc.same(p, get(i, "p3")) {
						others++
					}
				}
				if !*packed { // decoded objects usually share a part
					require.Equal(r, tc.same != nil, others > 0)
				}
				var done atomic.Bool
				culprit := i.AddHandlerWith(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: func(_ context.Context, p *corev1.Pod, _ bool) error {
					if p.Name == "p3" && !done.Swap(true) {
						tc.change(p)
					}
					return nil
				}}, sharedinformer.HandlerOptions{Name: "culprit"})
				synctest.Wait()
				all := reported.heard()
				require.Len(r, all, 1)
				require.Equal(r, "p3", all[0].Key.Name)
				require.Equal(r, culprit.String(), all[0].Handler)
				mutation, ok := errors.AsType[*sharedinformer.MutationError](&all[0])
				require.True(r, ok)
				require.Equal(r, sharedinformer.MutationError{Type: "*v1.Pod", Path: tc.path, Others: others}, *mutation)
				if others > 0 {
					require.ErrorContains(r, mutation, fmt.Sprintf("and so were %d more that share it", others))
				} else {
					require.NotContains(r, mutation.Error(), "that share it")
				}
				settle(3 * time.Hour)
				r.put(pod("p3"))
				r.delete("p2")
				settle(3 * time.Hour)
				stop()
				require.Empty(r, reported.heard(), "once")
			})
		})
	}
}

// A changed part is not used again after it was reported. An object that arrives later and equals the
// others in their former state is as on the server, and shares parts with the objects after it.
func TestL16_StateAfterAReportIsCorrect(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"element":      func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mine" },
		"inner part":   func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "mine" },
		"small number": func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.alike(4)
				reported := &failures{}
				opts := streaming()
				opts.OnError, opts.DetectMutations = reported.handle, time.Hour
				i, stop := r.synced(opts)
				defer stop()
				shared := func(p *corev1.Pod) []any {
					return []any{p.Spec.Containers, *p.Spec.TerminationGracePeriodSeconds}
				}
				want := shared(get(i, "p3").DeepCopy())
				var done atomic.Bool
				i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: func(_ context.Context, p *corev1.Pod, _ bool) error {
					if p.Name == "p3" && !done.Swap(true) {
						change(p)
					}
					return nil
				}})
				synctest.Wait()
				require.Len(r, reported.heard(), 1)
				require.NotEqual(r, want, shared(get(i, "p3")))
				r.alike(4) // again, in new versions
				synctest.Wait()
				for name, p := range held(i) {
					require.Equal(r, want, shared(p), name)
				}
				if !*packed { // objects share only parts that were not collected meanwhile
					require.Same(r, &get(i, "p2").Spec.Containers[0], &get(i, "p3").Spec.Containers[0])
				}
				require.Empty(r, reported.heard())
			})
		})
	}
}

// A change that did not happen during a call is not attributed to any handler, not even to those called
// later.
func TestL16_HandlerIsNotBlamedForAnEarlierMutation(t *testing.T) {
	wholeAlone(t)
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.alike(4)
		reported := &failures{}
		opts := streaming()
		opts.OnError, opts.DetectMutations = reported.handle, time.Hour
		i, stop := r.synced(opts)
		defer stop()
		get(i, "p2").Spec.Containers[0].Image = "mine"
		i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{})
		synctest.Wait()
		all := reported.heard()
		require.Len(r, all, 1)
		require.Empty(r, all[0].Handler)
		changed, first := &get(i, "p2").Spec.Containers[0], "p2"
		for name, p := range held(i) { // which pods share it depends on garbage collection
			if &p.Spec.Containers[0] == changed {
				first = min(first, name)
			}
		}
		require.Equal(r, first, all[0].Key.Name, "the first by name")
	})
}
