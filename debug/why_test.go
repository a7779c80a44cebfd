package debug_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// puzzle is a process with a late object.
type puzzle struct {
	*controllertest.Env
	options    controller.Options
	reconcile  func(ctx context.Context, name string) (controller.Result, error)
	predicates []controller.Predicate[*corev1.Pod]
	transform  func(*puzzle, *corev1.Pod) (*corev1.Pod, error) // nil means none
	prepare    func(*puzzle)
	happen     func(*puzzle)
	election   *leaderelection.Status
	informer   string // informer asked for; empty means any
	narrow     bool   // the controller's pods are limited to a label, and another informer has all
	want       debug.Cause
	text       string // regular expression

	pods *sharedinformer.Informer[*corev1.Pod]
}

// Each cause is found, is listed first, and is reported with the facts needed to act.
func TestWhy(t *testing.T) {
	block := func(ctx context.Context, name string) (controller.Result, error) {
		if name == "blocks" || name == "p" {
			<-ctx.Done()
		}
		return controller.Result{}, nil
	}
	put := func(name string) func(*puzzle) {
		return func(p *puzzle) { controllertest.Put(p.Env, pod("shop", name, "")); p.Settle(5 * time.Second) }
	}
	for name, p := range map[string]*puzzle{
		"reconciled": {
			happen: put("p"), want: debug.Reconciled,
			text: `^The controller keeper reconciled shop/p 5s ago in 0s \(success\), and nothing has requested it since\.$`,
		},
		"another type of that name": {
			prepare: func(p *puzzle) {
				factory.Informer[*corev1.ConfigMap](p.Factory).AddHandler(sharedinformer.HandlerFuncs[*corev1.ConfigMap]{})
			},
			happen: func(p *puzzle) {
				put("p")(p)
				controllertest.Put(p.Env, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}})
				p.Settle(time.Second)
			}, want: debug.Reconciled,
			text: `^The controller keeper reconciled shop/p 6s ago`,
		},
		"behind more than are listed": {
			reconcile: func(ctx context.Context, _ string) (controller.Result, error) {
				<-ctx.Done()
				return controller.Result{}, nil
			},
			happen: func(p *puzzle) {
				for n := range 1100 {
					controllertest.Put(p.Env, pod("shop", fmt.Sprint("before", n), ""))
				}
				put("p")(p)
			}, want: debug.Waiting,
			text: `^The controller keeper received a request for shop/p 5s ago\. No worker has taken it, and it is not among the first 1000 in the queue\.$`,
		},
		"running": {
			reconcile: block, happen: put("p"), want: debug.Running,
			text: `^The controller keeper has been reconciling shop/p for 5s\. It is in debug_test\.TestWhy\.func1 \(why_test\.go:\d+\)\.$`,
		},
		"waiting": {
			reconcile: block, happen: func(p *puzzle) { put("blocks")(p); put("p")(p) }, want: debug.Waiting,
			text: `^shop/p has been waiting for a worker of keeper for 5s, behind 0 others; 1 of 1 workers are busy, one with shop/blocks for 10s\. It is in debug_test\.TestWhy\.func1 \(why_test\.go:\d+\)\.$`,
		},
		"failing": {
			reconcile: func(context.Context, string) (controller.Result, error) {
				return controller.Result{}, errors.New("no quota")
			},
			happen: put("p"), want: debug.BackingOff,
			text: `^The controller keeper failed on shop/p \d+ times in a row, last .+ ago, and will retry in .+: no quota\.$`,
		},
		"terminal": {
			reconcile: func(context.Context, string) (controller.Result, error) {
				return controller.Result{}, controller.Terminal(errors.New("no such class"))
			},
			happen: put("p"), want: debug.BackingOff,
			text: `^The controller keeper failed on shop/p 5s ago and will not retry \(terminal error\): .*no such class\.$`,
		},
		"scheduled": {
			reconcile: func(context.Context, string) (controller.Result, error) {
				return controller.Result{RequeueAfter: time.Minute}, nil
			},
			happen: put("p"), want: debug.Scheduled,
			text: `^The controller keeper will reconcile shop/p again in 55s, as requested\.$`,
		},
		"filtered": {
			predicates: []controller.Predicate[*corev1.Pod]{controller.PredicateFunc[*corev1.Pod](func(sharedinformer.Event[*corev1.Pod]) bool { return false })},
			happen:     put("p"), want: debug.NotAsked,
			text: `^The last change to shop/p \(add, version \d+\) was delivered 5s ago, but no source of keeper requested a reconcile`,
		},
		"not there": {
			informer: "pods", happen: put("other"), want: debug.NotCached,
			text: `^shop/p is in no cache: not in pods \(\*v1\.Pod\) \(1 objects, complete up to version \d+\)\.`,
		},
		"deleted": {
			happen: func(p *puzzle) {
				put("p")(p)
				controllertest.Delete[*corev1.Pod](p.Env, object.Key{Namespace: "shop", Name: "p"})
				p.Settle(5 * time.Second)
			}, want: debug.NotCached,
			text: `^shop/p is no longer in any cache: it was removed from pods \(\*v1\.Pod\) 5s ago, at version \d+\. It was deleted, or the informer's namespaces and selectors no longer include it\.$`,
		},
		"deleted, and a handler is not told": {
			prepare: func(p *puzzle) {
				p.pods.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(ctx context.Context, e sharedinformer.Event[*corev1.Pod]) error {
					if e.Object.Name == "blocks" {
						<-ctx.Done()
					}
					return nil
				}), sharedinformer.HandlerOptions{Name: "stuck"})
			},
			happen: func(p *puzzle) {
				put("p")(p)
				put("blocks")(p)
				controllertest.Delete[*corev1.Pod](p.Env, object.Key{Namespace: "shop", Name: "p"})
				p.Settle(5 * time.Second)
			}, want: debug.HandlerLags,
			text: `^The handler stuck \(.*\) of pods \(\*v1\.Pod\) is 10s behind, with 2 pending events; .* Its call for shop/blocks has taken 10s so far\.`,
		},
		"made again": {
			happen: func(p *puzzle) {
				put("p")(p)
				controllertest.Delete[*corev1.Pod](p.Env, object.Key{Namespace: "shop", Name: "p"})
				p.Settle(5 * time.Second)
				put("p")(p)
			}, want: debug.Reconciled,
			text: `^The controller keeper reconciled shop/p 5s ago`,
		},
		"another controller waits": {
			prepare: func(p *puzzle) {
				p.Server.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "nodes" })
			},
			happen: put("p"), want: debug.Reconciled,
			text: `^The controller keeper reconciled shop/p 5s ago`,
		},
		"another controller waits, and nobody has it": {
			prepare: func(p *puzzle) {
				p.Server.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "nodes" })
			},
			informer: "po", happen: put("other"), want: debug.NotCached,
			text: `^shop/p is in no cache: not in pods `,
		},
		"known to a controller of other objects": {
			narrow: true, informer: "pods",
			reconcile: block, happen: func(p *puzzle) {
				_, err := p.Server.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: map[string]string{"app": "x"}}})
				require.NoError(p, err)
				p.Settle(5 * time.Second)
				_, err = p.Server.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}})
				require.NoError(p, err)
				p.Settle(time.Second)
			}, want: debug.Running,
			text: `^The controller keeper has been reconciling shop/p for 6s\. It is in debug_test\.TestWhy\.func1 \(why_test\.go:\d+\)\.$`,
		},
		"in the cache of another informer": {
			narrow: true, happen: put("p"), want: debug.NotCached,
			text: `^The controller keeper has no request for shop/p: the namespaces and selectors of its source pods with labels app=x do not include it\. Another informer does\.$`,
		},
		"forbidden": {
			prepare: func(p *puzzle) { p.Server.SetAuthorizer(func(apiservertest.Attributes) bool { return false }) },
			happen:  func(p *puzzle) { p.Settle(5 * time.Second) }, want: debug.NotRunning,
			text: `^The controller keeper has been Waiting for .+: pods is not synced: .*forbidden`,
		},
		"server down": {
			happen: func(p *puzzle) { put("p")(p); p.Server.Down(); p.Settle(30 * time.Second) }, want: debug.WatchFails,
			text: `^Changes to pods \(\*v1\.Pod\) are not arriving: \w+: .+ \(\d+ times in .+\)\. The cache is at version \d+, \S+ old\.$`,
		},
		"silent watch": {
			prepare: func(p *puzzle) {
				p.Server.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.NoBookmarks{}}})
			},
			happen: func(p *puzzle) { put("p")(p); p.Settle(3 * time.Minute) }, want: debug.WatchSilent,
			text: `^The informer for pods \(\*v1\.Pod\) is silent: its watch has received nothing for 3m\d*s?, and never a bookmark: .+ The cache is at version \d+; informer-debug check compares it with the server\.$`,
		},
		"transform blocks": {
			transform: func(p *puzzle, o *corev1.Pod) (*corev1.Pod, error) {
				if o.Name == "p" {
					<-p.Context().Done()
				}
				return o, nil
			},
			happen: func(p *puzzle) { put("other")(p); put("p")(p); p.Settle(3 * time.Minute) }, want: debug.WatchFails,
			text: `^Changes to pods \(\*v1\.Pod\) are not arriving: Watching: waiting for the transform \S+ \(debug/why_test\.go:\d+\), called on shop/p, for 3m\d+s\. The cache is at version \d+, \S+ old\.$`,
		},
		"handler blocks": {
			prepare: func(p *puzzle) {
				p.pods.AddHandlerWith(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: func(ctx context.Context, _ *corev1.Pod, _ bool) error {
					<-ctx.Done()
					return nil
				}}, sharedinformer.HandlerOptions{Name: "stuck"})
			},
			happen: put("p"), want: debug.HandlerLags,
			text: `^The handler stuck \(debug/why_test\.go:\d+\) of pods \(\*v1\.Pod\) is 5s behind, with 1 pending events; its longest call has taken 5s\. Its call for shop/p has taken 5s so far\. It is in debug_test\.TestWhy\.func\d+\.1 \(why_test\.go:\d+\)\.$`,
		},
		"follower": {
			election: &leaderelection.Status{Identity: "a", Holder: "b", Lease: object.Key{Namespace: "kube-system", Name: "keeper"}},
			happen:   put("p"), want: debug.NotLeading,
			text: `^This replica \(a\) is not the leader; b is \(lease kube-system/keeper\)\.$`,
		},
		"follower, whose controller runs without the lease": { // in the group Others, such as one that shares the work
			election: &leaderelection.Status{Identity: "a", Holder: "b", Lease: object.Key{Namespace: "kube-system", Name: "keeper"}},
			reconcile: func(context.Context, string) (controller.Result, error) {
				return controller.Result{}, errors.New("no quota")
			},
			happen: put("p"), want: debug.BackingOff,
			text: `^The controller keeper failed on shop/p \d+ times in a row, last .+ ago, and will retry in .+: no quota\.$`,
		},
		"lease that cannot be read": {
			election: &leaderelection.Status{Identity: "a", Lease: object.Key{Namespace: "kube-system", Name: "keeper"}, Attempts: 3, Failure: &leaderelection.Failure{Err: errors.New("leases is forbidden")}},
			happen:   put("p"), want: debug.NotLeading,
			text: `^This replica \(a\) is not the leader, and cannot read or renew the lease kube-system/keeper: leases is forbidden.*\.$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := flight.New(flight.DefaultSize)
			p.options.Flight = recorder
			controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Flight: recorder}}, func(e *controllertest.Env) {
				p.Env = e
				p.ask()
			})
		})
	}
}

func (p *puzzle) ask() {
	var which factory.For[*corev1.Pod]
	if p.narrow {
		which.Scope.Labels = labels.SelectorFromSet(labels.Set{"app": "x"})
	}
	if p.transform != nil {
		which.Transform = func(o *corev1.Pod) (*corev1.Pod, error) { return p.transform(p, o) }
	}
	p.pods = factory.InformerWith(p.Factory, which)
	if p.narrow { // another informer has all
		factory.Informer[*corev1.Pod](p.Factory)
	}
	reconciler := controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
		if p.reconcile == nil {
			return controller.Result{}, nil
		}
		return p.reconcile(ctx, r.Name)
	})
	c, err := controller.New("keeper", reconciler, p.options)
	require.NoError(p, err)
	c.Watch(controller.For(p.pods, p.predicates...))
	other, err := controller.New("bystander", reconciler, controller.Options{Flight: p.options.Flight})
	require.NoError(p, err)
	other.Watch(controller.For(factory.Informer[*corev1.Node](p.Factory)))
	if p.prepare != nil {
		p.prepare(p)
	}
	go func() { _ = c.Run(p.Context()) }()
	go func() { _ = other.Run(p.Context()) }()
	p.Factory.Start(p.Context())
	p.Settle(time.Second)
	p.happen(p)
	process := debug.New(debug.Options{
		Recorder:  p.options.Flight,
		Informers: debug.Of(p.Factory), Controllers: func() []controller.View { return []controller.View{c, other} },
		Election: func() *leaderelection.Status { return p.election },
	})
	why, err := attached(process).Why(p.Context(), p.informer, "", object.Key{Namespace: "shop", Name: "p"})
	require.NoError(p, err)
	require.NotEmpty(p, why.Reasons)
	require.Equal(p, p.want, why.Reasons[0].Cause, "%+v", why.Reasons)
	require.Regexp(p, p.text, why.Reasons[0].Text)
}

// Informers that cannot have the object are not blamed, and the cluster of an informer
// is named.
func TestWhyNamesInformersThatMayHoldTheObject(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"shop"}}})
		idle := factory.New(e.Client, factory.Options{})
		for n := range 12 {
			factory.InformerWith(idle, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{fmt.Sprint("bank-", n)}}})
		}
		e.Start()
		e.Settle(5 * time.Second)
		ask := func(key object.Key, clusters ...debug.Cluster) (texts []string) {
			w, err := debug.New(debug.Options{Informers: func() []debug.Cluster { return clusters }}).Client().Why(e.Context(), "pods", "", key)
			require.NoError(e, err)
			for _, r := range w.Reasons {
				texts = append(texts, r.Text)
			}
			return texts
		}
		own, other := debug.Cluster{Informers: e.Factory}, debug.Cluster{Informers: idle}
		said := ask(object.Key{Namespace: "shop", Name: "p"}, own, other)
		require.NotContains(e, strings.Join(said, "\n"), "bank")
		require.Contains(e, said[0], "shop/p is in no cache")

		other.Name = "far"
		said = ask(object.Key{Namespace: "bank-3", Name: "p"}, own, other)
		require.Contains(e, said[0], "The informer for pods in namespace bank-3 of cluster far has no initial list yet: ")
		require.NotContains(e, strings.Join(said, "\n"), "bank-4")

		said = ask(object.Key{Name: "p"}, own, other) // it may be in any of them
		require.Contains(e, strings.Join(said, "\n"), "2 more have no initial list yet.")
	})
}

// A namespace that waits for one that does not end, and one that is being read, are not
// blamed.
func TestWhyNamesATransformOfANamespaceThatHasGone(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		let := make(chan struct{})
		pods := factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"bank", "shop"}}, Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Namespace == "shop" {
				<-let
			}
			return p, nil
		}})
		controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}})
		e.Factory.Start(e.Context())
		time.Sleep(10 * time.Second)
		for _, then := range []struct{ namespace, want string }{
			{"bank", `The informer for pods in namespace bank syncs once the source has returned from pods in namespace shop, which was cancelled \(waiting for the transform .*, called on shop/p, for \S+\)\.`},
			{"web", `The informer for pods in namespace web has no initial list yet: it starts once the source has returned from pods in namespace shop, which was cancelled \(waiting for the transform `},
		} {
			require.NoError(e, pods.SetNamespaces([]string{then.namespace}))
			time.Sleep(10 * time.Second)
			process := debug.New(debug.Options{Informers: debug.Of(e.Factory)})
			w, err := process.Client().Why(e.Context(), "pods", "", object.Key{Namespace: then.namespace, Name: "p"})
			require.NoError(e, err)
			require.Equal(e, debug.Unsynced, w.Reasons[0].Cause)
			require.Regexp(e, then.want, w.Reasons[0].Text)
		}
		close(let)
		e.Settle(time.Minute)
		require.True(e, pods.HasSynced())
	})
}

// If a controller started without a namespace, its requests there are neither queued
// nor parked.
func TestWhyNamesASourceThatLacksTheNamespace(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	controllertest.RunWith(t, controllertest.Options{
		Factory: factory.Options{Flight: recorder, Namespaces: []string{"bank", "shop"}},
		Server: apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool {
			return a.Resource != "configmaps" || a.Namespace != "shop"
		}},
	}, func(e *controllertest.Env) {
		pods, maps := controller.ClientFor[*corev1.Pod](e.Factory), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		c, err := controller.New("keeper", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), controller.Options{Flight: recorder})
		require.NoError(e, err)
		c.Watch(controller.For(pods.Informer()))
		c.Watch(controller.Owns(maps.Informer(), pods))
		e.Start(c)
		for _, namespace := range []string{"bank", "shop"} {
			controllertest.Put(e, pod(namespace, "p", ""))
		}
		e.Settle(time.Minute)
		process := debug.New(debug.Options{
			Recorder: recorder, Informers: debug.Of(e.Factory), Controllers: func() []controller.View { return []controller.View{c} },
		})
		for namespace, want := range map[string]debug.Reason{
			"bank": {Cause: debug.Reconciled, Text: `^The controller keeper reconciled bank/p `},
			"shop": {Cause: debug.Unsynced, Text: `^The controller keeper received a request for shop/p 1m0s ago and has not started it: configmaps in several namespaces is not synced: configmaps in namespace shop: list: forbidden: `},
		} {
			w, err := process.Client().Why(e.Context(), "", "", object.Key{Namespace: namespace, Name: "p"})
			require.NoError(e, err)
			require.Equal(e, want.Cause, w.Reasons[0].Cause, "%+v", w.Reasons)
			require.Regexp(e, want.Text, w.Reasons[0].Text)
		}
	})
}

// Why reports what delays an object in its own namespace, not in another one of the same informer.
func TestWhyBlamesNoOtherNamespace(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	controllertest.RunWith(t, controllertest.Options{
		Factory: factory.Options{Flight: recorder, Namespaces: []string{"bank", "shop"}},
		Server:  apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool { return a.Namespace != "shop" }},
	}, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		c, err := controller.New("keeper", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), controller.Options{Flight: recorder})
		require.NoError(e, err)
		c.Watch(controller.For(pods))
		e.Start(c)
		for _, namespace := range []string{"bank", "shop"} {
			controllertest.Put(e, pod(namespace, "p", ""))
		}
		e.Settle(time.Minute)
		process := debug.New(debug.Options{
			Recorder: recorder, Informers: debug.Of(e.Factory), Controllers: func() []controller.View { return []controller.View{c} },
		})
		for namespace, want := range map[string]debug.Cause{"bank": debug.Reconciled, "shop": debug.Unsynced} {
			w, err := process.Client().Why(e.Context(), "", "", object.Key{Namespace: namespace, Name: "p"})
			require.NoError(e, err)
			require.Equal(e, want, w.Reasons[0].Cause, "%+v", w.Reasons)
		}
	})
}

// Why reports the request of the object's own cluster.
func TestWhyDistinguishesClusters(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Flight: recorder}}, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		c, err := controller.New("keeper", controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
			switch r.Cluster {
			case "east":
				<-ctx.Done()
			case "west":
				return controller.Result{}, errors.New("no quota is left")
			}
			return controller.Result{}, nil
		}), controller.Options{Flight: recorder, Concurrency: 2})
		require.NoError(e, err)
		for _, cluster := range []string{"", "east", "west"} {
			c.Watch(controller.For(pods).InCluster(cluster))
		}
		e.Start(c)
		controllertest.Put(e, pod("shop", "p", ""))
		e.Settle(10 * time.Second)
		process := debug.New(debug.Options{Recorder: recorder, Controllers: func() []controller.View { return []controller.View{c} }, Informers: func() []debug.Cluster {
			return []debug.Cluster{{Informers: e.Factory}, {Name: "east", Informers: e.Factory}, {Name: "west", Informers: e.Factory}}
		}})
		for of, want := range map[string]debug.Cause{"": debug.Reconciled, " of cluster east": debug.Running, " of cluster west": debug.BackingOff} {
			w, err := process.Client().Why(e.Context(), "pods (*v1.Pod)"+of, "", object.Key{Namespace: "shop", Name: "p"})
			require.NoError(e, err)
			require.Equal(e, want, w.Reasons[0].Cause, "%s: %+v", of, w.Reasons)
		}
	})
}

// An informer that has stopped receives no changes, although it stays synced.
func TestAnInformerThatHasStopped(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		f := factory.New(e.Client, factory.Options{})
		factory.Informer[*corev1.Pod](f)
		controllertest.Put(e, pod("shop", "p", ""))
		ctx, cancel := context.WithCancel(e.Context())
		f.Start(ctx)
		require.NoError(e, f.WaitForSync(ctx))
		process := debug.New(debug.Options{Informers: debug.Of(f)}).Client()
		trouble := func() string {
			s, err := process.Status(e.Context())
			require.NoError(e, err)
			require.True(e, s.Informers[0].Synced)
			return s.Informers[0].Trouble(s.At)
		}
		require.Empty(e, trouble())
		cancel()
		f.Wait()
		e.Settle(10 * time.Second)
		require.Equal(e, "no changes arrive: the informer stopped 10s ago; unless the process is shutting down, keep alive the context given to its Run, or to its factory's Start", trouble())
		w, err := process.Why(e.Context(), "pods", "", object.Key{Namespace: "shop", Name: "p"})
		require.NoError(e, err)
		require.Equal(e, debug.WatchFails, w.Reasons[0].Cause, "%+v", w.Reasons)
		require.Regexp(e, `^Changes to pods \(\*v1.Pod\) are not arriving: the informer stopped 10s ago; .* Start\. The cache is at version \d+, 10s old\.$`, w.Reasons[0].Text)
	})
}

// A change in another cluster, which has an informer of the same name, is not taken for one that no source of the
// controller asked for.
func TestWhyDistinguishesInformersOfOneName(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Flight: recorder}}, func(e *controllertest.Env) {
		west := factory.New(e.Client, factory.Options{Flight: recorder})
		pods, others := factory.Informer[*corev1.Pod](e.Factory), factory.Informer[*corev1.Pod](west)
		c, err := controller.New("keeper", controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
			if r.Cluster == "" {
				<-ctx.Done()
			}
			return controller.Result{}, nil
		}), controller.Options{Flight: recorder, Concurrency: 2})
		require.NoError(e, err)
		c.Watch(controller.For(pods))
		c.Watch(controller.For(others).InCluster("west"))
		west.Start(e.Context())
		e.Start(c)
		controllertest.Put(e, pod("shop", "p", ""))
		e.Settle(10 * time.Second)
		process := debug.New(debug.Options{Recorder: recorder, Controllers: func() []controller.View { return []controller.View{c} }, Informers: func() []debug.Cluster {
			return []debug.Cluster{{Informers: e.Factory}, {Name: "west", Informers: west}}
		}})
		for of, want := range map[string]debug.Cause{"": debug.Running, " of cluster west": debug.Reconciled} {
			w, err := process.Client().Why(e.Context(), "pods (*v1.Pod)"+of, "", object.Key{Namespace: "shop", Name: "p"})
			require.NoError(e, err)
			require.Equal(e, want, w.Reasons[0].Cause, "%s: %+v", of, w.Reasons)
		}
	})
}
