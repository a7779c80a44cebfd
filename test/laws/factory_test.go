package laws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

type (
	forPods   = factory.For[*corev1.Pod]
	podScope  = factory.Scope
	untyped   = *unstructured.Unstructured
	metaOnly  = *metav1.PartialObjectMetadata
	podsCache = *sharedinformer.Informer[*corev1.Pod]
)

// started starts a factory with its own context, and returns a function that ends the context.
func (r *rig) started(opts factory.Options) (f *factory.Factory, stop func()) {
	f = newFactory(r.client, opts)
	ctx, cancel := context.WithCancel(r.ctx)
	f.Start(ctx)
	return f, func() { cancel(); f.Wait() }
}

func namesOf[T object.Object](i *sharedinformer.Informer[T]) []string {
	names := []string{}
	for o := range i.Cache().All() {
		names = append(names, o.GetName())
	}
	return names
}

// Equal options mean the same informer, however they are written.
func TestL25_OneInformerForOneTypeAndScope(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		f := newFactory(r.client, factory.Options{})
		selector := func(s string) labels.Selector {
			parsed, err := labels.Parse(s)
			require.NoError(r, err)
			return parsed
		}
		for name, same := range map[string][]forPods{
			"all pods":  {{}, {Kind: podKind}, {Scope: podScope{Labels: labels.Everything()}}, {Scope: podScope{Fields: fields.Everything()}}},
			"namespace": {{Scope: podScope{Namespaces: []string{"shop"}}}, {Kind: podKind, Scope: podScope{Namespaces: []string{"shop"}, Labels: labels.Everything()}}},
			"labels":    {{Scope: podScope{Labels: selector("a=1,b=2")}}, {Scope: podScope{Labels: selector("b=2,a=1")}}},
			"fields": {
				{Scope: podScope{Fields: fields.ParseSelectorOrDie("spec.nodeName=n,status.phase=Running")}},
				{Scope: podScope{Fields: fields.AndSelectors(
					fields.OneTermEqualSelector("status.phase", "Running"), fields.OneTermEqualSelector("spec.nodeName", "n"))}},
			},
		} {
			first := factory.InformerWith(f, same[0])
			for n, of := range same {
				require.Same(r, first, factory.InformerWith(f, of), "%s %d", name, n)
			}
		}
		require.Len(r, f.Status(), 4)
		require.Same(r, factory.Informer[*corev1.Pod](f), factory.InformerWith(f, forPods{}))
	})
}

func TestL25_ConcurrentRequestsForAnInformer(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(3)
		f, stop := r.started(factory.Options{})
		defer stop()
		informers := make([]podsCache, 50)
		var askers sync.WaitGroup
		for n := range informers {
			askers.Go(func() {
				informers[n] = factory.Informer[*corev1.Pod](f)
				f.Start(r.ctx)
				assert.NoError(r, f.WaitForSync(r.ctx))
			})
		}
		askers.Wait()
		for _, i := range informers {
			require.Same(r, informers[0], i)
		}
		require.Equal(r, 1, r.srv.Stats().Requests("watch", "pods"), "started once")
		require.Zero(r, r.srv.Stats().Requests("list", "pods"))
	})
}

func TestL25_ScopesSideBySide(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for _, p := range []*corev1.Pod{pod("a", "app=web"), pod("b", "app=db")} {
			r.put(p)
			p.Namespace, p.Name = "bank", p.Name+"2"
			p.Spec.NodeName = "n1"
			r.put(p)
		}
		f, stop := r.started(factory.Options{})
		defer stop()
		all := factory.Informer[*corev1.Pod](f)
		shop := factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"shop"}}})
		bank := factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"bank"}}})
		web := factory.InformerWith(f, forPods{Scope: podScope{Labels: labels.SelectorFromSet(labels.Set{"app": "web"})}})
		node := factory.InformerWith(f, forPods{Scope: podScope{Fields: fields.OneTermEqualSelector("spec.nodeName", "n1")}})
		bankWeb := factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"bank"}, Labels: labels.SelectorFromSet(labels.Set{"app": "web"})}})
		require.NoError(r, f.WaitForSync(r.ctx))
		require.ElementsMatch(r, []string{"a", "b", "a2", "b2"}, namesOf(all))
		require.ElementsMatch(r, []string{"a", "b"}, namesOf(shop))
		require.ElementsMatch(r, []string{"a2", "b2"}, namesOf(bank))
		require.ElementsMatch(r, []string{"a", "a2"}, namesOf(web))
		require.ElementsMatch(r, []string{"a2", "b2"}, namesOf(node))
		require.ElementsMatch(r, []string{"a2"}, namesOf(bankWeb))

		r.put(pod("a", "app=db")) // no longer matches the selector
		synctest.Wait()
		require.ElementsMatch(r, []string{"a2"}, namesOf(web))
		require.ElementsMatch(r, []string{"a", "b"}, namesOf(shop))
		var names []string
		for _, s := range f.Status() {
			names = append(names, s.Reflector.Resource)
		}
		require.Equal(r, []string{
			"pods", "pods in namespace bank", "pods in namespace bank with labels app=web",
			"pods in namespace shop", "pods with fields spec.nodeName=n1", "pods with labels app=web",
		}, names)
	})
}

func TestL25_TypedUntypedAndMetadataSideBySide(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		p := pod("a", "app=web")
		p.Spec.NodeName = "n1"
		r.put(p)
		f, stop := r.started(factory.Options{})
		defer stop()
		typed := factory.Informer[*corev1.Pod](f)
		raw := factory.InformerWith(f, factory.For[untyped]{Kind: podKind})
		meta := factory.InformerWith(f, factory.For[metaOnly]{Kind: podKind})
		mixed := factory.InformerWith(f, factory.For[object.Object]{Kind: podKind})
		require.NoError(r, f.WaitForSync(r.ctx))
		key := object.Key{Namespace: "shop", Name: "a"}
		t1, _ := typed.Cache().Get(key)
		require.Equal(r, "n1", t1.Spec.NodeName)
		t2, _ := raw.Cache().Get(key)
		node, _, err := unstructured.NestedString(t2.Object, "spec", "nodeName")
		require.NoError(r, err)
		require.Equal(r, "n1", node)
		t3, _ := meta.Cache().Get(key)
		require.Equal(r, "web", t3.Labels["app"])
		t4, _ := mixed.Cache().Get(key)
		require.IsType(r, &corev1.Pod{}, t4)
		require.Equal(r, t1.ResourceVersion, t3.ResourceVersion)
		var types []string
		for _, s := range f.Status() {
			require.Equal(r, "pods", s.Reflector.Resource)
			types = append(types, s.Type)
		}
		require.ElementsMatch(r, []string{"*v1.Pod", "*unstructured.Unstructured", "*v1.PartialObjectMetadata", "object.Object"}, types)
	})
}

func TestL25_OptionsScopeIsTheDefault(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		elsewhere := pod("b")
		elsewhere.Namespace = "bank"
		r.put(elsewhere)
		f, stop := r.started(factory.Options{Scope: podScope{Namespaces: []string{"shop"}}})
		defer stop()
		typed := factory.Informer[*corev1.Pod](f)
		raw := factory.InformerWith(f, factory.For[untyped]{Kind: podKind})
		all := factory.InformerWith(f, forPods{Scope: podScope{Labels: labels.Everything()}})
		require.NoError(r, f.WaitForSync(r.ctx))
		require.Equal(r, []string{"a"}, namesOf(typed))
		require.Equal(r, []string{"a"}, namesOf(raw))
		require.ElementsMatch(r, []string{"a", "b"}, namesOf(all))
	})
}

func TestL25_ALateInformerStartsAtOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(2)
		f := newFactory(r.client, factory.Options{})
		early := factory.Informer[*corev1.Pod](f)
		settle(time.Minute)
		require.Zero(r, r.srv.Stats().Requests("", "pods"), "not before Start")
		ctx, cancel := context.WithCancel(r.ctx)
		f.Start(ctx)
		require.NoError(r, f.WaitForSync(r.ctx))
		require.Equal(r, 2, early.Cache().Len())
		late := factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"shop"}}})
		require.NoError(r, late.WaitForSync(r.ctx))
		require.Equal(r, 2, late.Cache().Len())
		cancel()
		f.Wait()
		after := factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"bank"}}})
		settle(time.Minute)
		require.Equal(r, reflector.Idle, after.Status().Reflector.State, "not after the end")
	})
}

func TestL25_TheLastReleaseStops(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(2)
		f, stop := r.started(factory.Options{})
		defer stop()
		first, giveBackFirst := factory.Borrow(f, forPods{})
		second, giveBackSecond := factory.Borrow(f, forPods{})
		other := factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"shop"}}})
		require.NoError(r, f.WaitForSync(r.ctx))
		<-giveBackFirst()
		<-giveBackFirst()
		settle(time.Minute)
		require.Equal(r, reflector.Watching, second.Status().Reflector.State, "another one uses it")
		began := time.Now()
		<-giveBackSecond()
		require.Zero(r, time.Since(began))
		require.Equal(r, reflector.Stopped, second.Status().Reflector.State)
		require.Equal(r, reflector.Watching, other.Status().Reflector.State)
		require.Len(r, f.Status(), 1)
		<-giveBackSecond()
		require.Equal(r, reflector.Watching, other.Status().Reflector.State, "once too often")
		synctest.Wait()
		require.Equal(r, 1, r.srv.Stats().Open("watch", "pods"))

		again := factory.Informer[*corev1.Pod](f)
		require.NotSame(r, first, again)
		require.NoError(r, again.WaitForSync(r.ctx))
		require.Equal(r, 2, again.Cache().Len())
	})
}

// A factory can run again after the end of its context. Waits are for the new run even while the
// previous one is ending.
func TestL25_AFactoryRunsAgain(t *testing.T) {
	for name, settled := range map[string]bool{"after the end": true, "during the end": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(2)
				id := r.fault("", apiservertest.Silence{})
				f := newFactory(r.client, factory.Options{})
				i := factory.Informer[*corev1.Pod](f)
				h := record(r, i)
				i.AddHandler(h)
				ctx, cancel := context.WithCancel(r.ctx)
				f.Start(ctx)
				f.Start(r.ctx) // has no effect while it runs
				settle(time.Second)
				cancel()
				if settled {
					f.Wait()
					require.ErrorIs(r, f.WaitForSync(r.ctx), sharedinformer.ErrStopped)
				}
				r.srv.Faults().Remove(id)
				ctx, cancel = context.WithCancel(r.ctx)
				f.Start(ctx)
				require.NoError(r, f.WaitForSync(r.ctx))
				require.Len(r, h.heard(), 2)
				r.put(pod("pa", "n=1"))
				require.Equal(r, []string{"update pa"}, h.heard())
				cancel()
				f.Wait()
				r.put(pod("pa", "n=2"))
				ctx, cancel = context.WithCancel(r.ctx)
				f.Start(ctx)
				require.NoError(r, f.WaitForSync(r.ctx))
				settle(time.Second)
				require.Equal(r, []string{"update pa"}, h.heard())
				cancel()
				f.Wait()
			})
		})
	}
}

func TestL25_WaitForSyncNamesEachThatIsNotSynced(t *testing.T) {
	inBubble(t, apiservertest.Options{Authorize: apiservertest.Deny("", "pods")}, func(r *rig) {
		f, stop := r.started(factory.Options{})
		defer stop()
		factory.Informer[*corev1.Pod](f)
		factory.Informer[*corev1.ConfigMap](f)
		factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"shop"}}})
		factory.InformerWith(f, factory.For[untyped]{Kind: object.GVK{Group: "example.com", Version: "v1", Kind: "Order"}})
		err := f.WaitForSync(r.ctx)
		require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
		require.ErrorContains(r, err, "not synced: pods: list: forbidden: ")
		require.ErrorContains(r, err, "not synced: pods in namespace shop: list: forbidden: ")
		require.ErrorContains(r, err, "not synced: Order.example.com: resolve: ")
		require.NotContains(r, err.Error(), "configmaps")
	})
}

func TestL25_MisuseIsReported(t *testing.T) {
	same := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
	for name, tc := range map[string]struct {
		opts factory.Options
		ask  func(f *factory.Factory)
		want string
	}{
		"transform too late": {ask: func(f *factory.Factory) {
			factory.Informer[*corev1.Pod](f)
			factory.InformerWith(f, forPods{Transform: same})
		}, want: "transform"},
		"transform twice": {ask: func(f *factory.Factory) {
			factory.InformerWith(f, forPods{Transform: same})
			factory.InformerWith(f, forPods{Kind: podKind, Transform: same})
		}, want: "transform"},
		"other fields": {opts: factory.Options{Keep: wire.WithoutManagedFields}, ask: func(f *factory.Factory) {
			factory.InformerWith(f, forPods{Keep: wire.Only("spec.nodeName")})
			factory.Informer[*corev1.Pod](f)
			factory.InformerWith(f, forPods{Keep: wire.Only("spec.nodeName")})
		}, want: `: requested with Keep "without metadata.managedFields", but the informer already exists with "only spec.nodeName": use the same fields everywhere`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				f, stop := r.started(tc.opts)
				defer stop()
				if tc.ask != nil {
					tc.ask(f)
				}
				began := time.Now()
				require.ErrorContains(r, f.WaitForSync(r.ctx), tc.want)
				require.Zero(r, time.Since(began))
			})
		})
	}
}

// A misuse does not break a factory permanently. The factory forgets it together with the informer that
// was requested wrongly.
func TestL25_MisuseIsForgottenWithTheInformer(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		f, stop := r.started(factory.Options{})
		defer stop()
		_, giveBack := factory.Borrow(f, forPods{})
		same := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
		_, giveBackWrong := factory.Borrow(f, forPods{Transform: same})
		require.ErrorContains(r, f.WaitForSync(r.ctx), "transform")
		giveBack()
		<-giveBackWrong()
		factory.InformerWith(f, forPods{Transform: same})
		require.NoError(r, f.WaitForSync(r.ctx))
	})
}

// A wait for an unknown kind is pointless, so it is reported at once.
func TestL25_UnknownKindIsReportedAtOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		type unknown struct{ corev1.Pod }
		for name, ask := range map[string]func(*factory.Factory){
			"*unstructured.Unstructured": func(f *factory.Factory) { factory.Informer[*unstructured.Unstructured](f) },
			"*v1.PartialObjectMetadata":  func(f *factory.Factory) { factory.Informer[*metav1.PartialObjectMetadata](f) },
			"object.Object":              func(f *factory.Factory) { factory.Informer[object.Object](f) },
			"*laws.unknown":              func(f *factory.Factory) { factory.Informer[*unknown](f) },
		} {
			f, stop := r.started(factory.Options{})
			began := time.Now()
			ask(f)
			require.ErrorContains(r, f.WaitForSync(r.ctx), name+": requested without a kind")
			require.Zero(r, time.Since(began))
			stop()
		}
	})
}

// An informer that has failed for long enough ends the wait for all informers. The error names the slow
// ones too.
func TestL25_WaitForSyncReturnsOnceOneInformerHasFailed(t *testing.T) {
	inBubble(t, apiservertest.Options{Authorize: apiservertest.Deny("", "pods")}, func(r *rig) {
		r.srv.Faults().Add(apiservertest.Fault{Resource: "configmaps", Do: []apiservertest.Action{apiservertest.Silence{}}})
		opts := factory.Options{SyncPatience: 20 * time.Second}
		opts.Timing.StreamIdle = time.Hour
		f, stop := r.started(opts)
		defer stop()
		factory.Informer[*corev1.Pod](f)
		factory.Informer[*corev1.ConfigMap](f)
		began := time.Now()
		err := f.WaitForSync(r.ctx)
		require.Equal(r, 20*time.Second, time.Since(began))
		require.ErrorContains(r, err, "not synced: pods: list: forbidden: ")
		require.ErrorContains(r, err, "not synced: configmaps: InitialWatch for 20s: no answer from apiserver.pipe for 20s (the request is sent), no failure so far")
	})
}

// One part of a program may still be waiting for the end while another part has noticed it and starts
// the factory again.
func TestL25_AFactoryMayRunAgainWhileOthersStillWait(t *testing.T) {
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	client, err := rest.NewClient(&config.Config{Host: "http://nowhere.invalid", Dial: refused}, sharedScheme())
	require.NoError(t, err)
	f := newFactory(client, factory.Options{})
	factory.Informer[*corev1.Pod](f)
	var others sync.WaitGroup
	for range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx)
		for range 3 {
			others.Go(f.Wait)
		}
		cancel()
		f.Wait()
	}
	others.Wait()
}

// WaitForSync skips an optional kind that is not served, unless another user requires it. It waits for an
// informer that is not synced for any other reason.
func TestL25_WaitForSyncSkipsAnOptionalKindThatIsNotServed(t *testing.T) {
	widgets := apiservertest.Resource{GVR: object.GVR{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true}
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		f, stop := r.started(factory.Options{})
		defer stop()
		factory.Informer[*corev1.Pod](f)
		of := factory.For[untyped]{Kind: widgets.GVK(), Optional: true}
		optional, giveBack := factory.Borrow(f, of)
		began := time.Now()
		require.NoError(r, f.WaitForSync(r.ctx))
		require.Less(r, time.Since(began), 10*time.Second, "discovery may be asked twice, a second apart")
		require.False(r, optional.HasSynced(), "L18 is not bent")
		require.Empty(r, f.Unsynced())

		needed := of
		needed.Optional = false
		_, giveBackNeeded := factory.Borrow(f, needed)
		require.ErrorIs(r, f.WaitForSync(r.ctx), sharedinformer.ErrNotSynced)
		require.Len(r, f.Unsynced(), 1)
		giveBack()
		<-giveBackNeeded()

		r.srv.SetAuthorizer(apiservertest.Deny("", "widgets"))
		require.NoError(r, r.srv.AddResource(widgets))
		r.client.Mapper().Invalidate()
		optional = factory.InformerWith(f, of)
		require.ErrorContains(r, f.WaitForSync(r.ctx), "forbidden", "it is served")
		r.srv.SetAuthorizer(nil)
		time.Sleep(time.Hour)
		require.NoError(r, f.WaitForSync(r.ctx))
		require.True(r, optional.HasSynced())
		require.NoError(r, r.srv.RemoveResource(widgets.GVR))
		time.Sleep(time.Hour)
		require.NoError(r, f.WaitForSync(r.ctx))
	})
}

// The kind is installed in the first run but not in the second. Its informer still has the cache of the
// first run.
func TestL25_WaitForSyncSkipsAnOptionalKindThatIsGoneInALaterRun(t *testing.T) {
	widgets := apiservertest.Resource{GVR: object.GVR{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true}
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		require.NoError(r, r.srv.AddResource(widgets))
		f := newFactory(r.client, factory.Options{})
		factory.InformerWith(f, factory.For[untyped]{Kind: widgets.GVK(), Optional: true})
		run := func() error {
			ctx, cancel := context.WithCancel(r.ctx)
			defer f.Wait()
			defer cancel()
			f.Start(ctx)
			return f.WaitForSync(ctx)
		}
		require.NoError(r, run())
		require.NoError(r, r.srv.RemoveResource(widgets.GVR))
		r.client.Mapper().Invalidate()
		require.NoError(r, run())
		r.srv.SetAuthorizer(apiservertest.Deny("", "widgets"))
		require.NoError(r, r.srv.AddResource(widgets))
		r.client.Mapper().Invalidate()
		require.ErrorContains(r, run(), "forbidden", "it is served")
	})
}

// Releasing an informer before it has synced does not end the waits for other informers, even if the
// factory has not been started.
func TestL25_ReleasingAnInformerDoesNotEndOtherWaits(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for resource, delay := range map[string]time.Duration{"pods": 5 * time.Second, "nodes": 3 * time.Second} {
			r.srv.Faults().Add(apiservertest.Fault{Resource: resource, Count: 2, Do: []apiservertest.Action{apiservertest.Delay{For: delay}}})
		}
		f := newFactory(r.client, factory.Options{})
		_, giveBack := factory.Borrow(f, forPods{})
		waited := make(chan error, 1)
		go func() { waited <- f.WaitForSync(r.ctx) }()
		synctest.Wait()
		<-giveBack()
		require.NoError(r, <-waited, "nothing is left to wait for")

		f, stop := r.started(factory.Options{})
		defer stop()
		_, giveBack = factory.Borrow(f, forPods{})
		nodes := factory.Informer[*corev1.Node](f)
		go func() { waited <- f.WaitForSync(r.ctx) }()
		synctest.Wait()
		<-giveBack()
		require.NoError(r, <-waited)
		require.True(r, nodes.HasSynced())
	})
}

// A selector that selects nothing has the same text as a selector that selects everything, or at least
// more.
func TestL25_NothingIsNotEverything(t *testing.T) {
	nothing, err := metav1.LabelSelectorAsSelector(nil)
	require.NoError(t, err)
	secret := fields.OneTermEqualSelector("metadata.name", "secret")
	for name, scope := range map[string]struct{ none, all podScope }{
		"labels":          {podScope{Labels: nothing}, podScope{}},
		"fields":          {podScope{Fields: fields.Nothing()}, podScope{}},
		"fields and more": {podScope{Fields: fields.AndSelectors(fields.Nothing(), secret)}, podScope{Fields: secret}},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, first %v", name, first), func(t *testing.T) {
				inBubble(t, apiservertest.Options{}, func(r *rig) {
					r.put(pod("secret"))
					f, stop := r.started(factory.Options{})
					defer stop()
					var none, all podsCache
					if first {
						none = factory.InformerWith(f, forPods{Scope: scope.none})
					}
					all = factory.InformerWith(f, forPods{Scope: scope.all})
					if !first {
						none = factory.InformerWith(f, forPods{Scope: scope.none})
					}
					require.NoError(r, all.WaitForSync(r.ctx))
					require.Equal(r, []string{"secret"}, namesOf(all))
					require.ErrorContains(r, f.WaitForSync(r.ctx), "a selector that selects nothing")
					require.Empty(r, namesOf(none))
				})
			})
		}
	}
}
