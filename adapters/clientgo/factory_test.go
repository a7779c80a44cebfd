package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// everyInformer calls each method of a factory that returns an informer, and returns the informers
// by the path to the method, such as Core.V1.Pods.
func everyInformer(f informers.SharedInformerFactory) map[string]cache.SharedIndexInformer {
	all := map[string]cache.SharedIndexInformer{}
	factory := reflect.TypeFor[informers.SharedInformerFactory]()
	for g := range factory.NumMethod() {
		group := factory.Method(g)
		if group.Type.NumIn() != 0 || group.Type.NumOut() != 1 || group.Type.Out(0).Name() != "Interface" {
			continue
		}
		versions := reflect.ValueOf(f).MethodByName(group.Name).Call(nil)[0]
		for v := range versions.NumMethod() {
			kinds := versions.Method(v).Call(nil)[0]
			for k := range kinds.NumMethod() {
				informer := kinds.Method(k).Call(nil)[0].MethodByName("Informer")
				way := group.Name + "." + versions.Type().Method(v).Name + "." + kinds.Type().Method(k).Name
				all[way] = informer.Call(nil)[0].Interface().(cache.SharedIndexInformer)
			}
		}
	}
	return all
}

func TestFactoryReturnsOnlyMillraceInformers(t *testing.T) {
	client := fake.NewClientset()
	theirs := everyInformer(informers.NewSharedInformerFactory(client, 0))
	require.Greater(t, len(theirs), 80)
	f := clientgo.NewSharedInformerFactory(client, 0)
	ours := everyInformer(f)
	require.Len(t, ours, len(theirs))
	for way, i := range ours {
		s, ok := clientgo.Status(i)
		require.True(t, ok, "%s: clientOf lacks this type", way)
		require.NotContains(t, s.Reflector.Resource, "*", "%s has the resource's name", way)
		_, stockHasOne := clientgo.Status(theirs[way])
		require.False(t, stockHasOne)
	}
	require.Len(t, f.Status(), len(ours))
}

func TestForResourceSupportsTheSameResourcesAsClientGo(t *testing.T) {
	client := fake.NewClientset()
	theirs := informers.NewSharedInformerFactory(client, 0)
	ours := clientgo.NewSharedInformerFactory(client, 0)
	found := 0
	for kind := range scheme.Scheme.AllKnownTypes() {
		for _, plural := range []string{"s", "es", ""} {
			resource := kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + plural)
			if p, ok := strings.CutSuffix(resource.Resource, "ys"); ok {
				resource.Resource = p + "ies"
			}
			_, theirErr := theirs.ForResource(resource)
			g, ourErr := ours.ForResource(resource)
			require.Equal(t, theirErr, ourErr)
			if ourErr != nil {
				continue
			}
			found++
			_, ok := clientgo.Status(g.Informer())
			require.True(t, ok)
			_, err := g.Lister().Get("none")
			require.ErrorContains(t, err, resource.Resource)
		}
	}
	require.Equal(t, len(everyInformer(theirs)), found)
	for _, nameless := range []schema.GroupVersionResource{{}, {Version: "v1"}, {Group: "apps", Version: "v1"}} {
		_, err := ours.ForResource(nameless)
		require.ErrorContains(t, err, "no informer found for "+nameless.String())
	}
	pods, err := ours.ForResource(podResource)
	require.NoError(t, err)
	require.Same(t, statusSource(ours.Core().V1().Pods().Informer()), statusSource(pods.Informer()), "the same informer by either way")
}

// statusSource returns the part that a wrapped and an unwrapped informer have in common.
func statusSource(i cache.SharedIndexInformer) any { return i.GetIndexer() }

func TestFakeClientsets(t *testing.T) {
	for name, newFactory := range map[string]func(kubernetes.Interface) informers.SharedInformerFactory{
		"client-go": func(c kubernetes.Interface) informers.SharedInformerFactory {
			return informers.NewSharedInformerFactory(c, 0)
		},
		"millrace": func(c kubernetes.Interface) informers.SharedInformerFactory {
			return clientgo.NewSharedInformerFactory(c, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(pod("a"))
				f := newFactory(client)
				d := &diary{}
				lister := f.Core().V1().Pods().Lister()
				_, err := f.Core().V1().Pods().Informer().AddEventHandler(d)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer f.Shutdown()
				defer cancel()
				f.StartWithContext(ctx)
				began := time.Now()
				require.NoError(t, f.WaitForCacheSyncWithContext(ctx).AsError())
				require.Zero(t, time.Since(began), "no streaming list is tried")
				require.Equal(t, []string{"initial a=web"}, d.read())

				pods := client.CoreV1().Pods("shop")
				changed := pod("a")
				changed.Labels["app"] = "db"
				_, err = pods.Update(ctx, changed, metav1.UpdateOptions{})
				require.NoError(t, err)
				_, err = pods.Update(ctx, pod("a"), metav1.UpdateOptions{})
				require.NoError(t, err)
				_, err = pods.Create(ctx, pod("b"), metav1.CreateOptions{})
				require.NoError(t, err)
				require.NoError(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
				require.Equal(t, []string{"update a=web to a=db", "update a=db to a=web", "add b=web", "delete a=web"}, d.read())
				got, err := lister.Pods("shop").Get("b")
				require.NoError(t, err)
				require.Empty(t, got.ResourceVersion, "as it was stored")
				require.Empty(t, f.Core().V1().Pods().Informer().GetStore().List()[0].(*corev1.Pod).ResourceVersion)
				all, err := lister.List(labels.Everything())
				require.NoError(t, err)
				require.Len(t, all, 1)
			})
		})
	}
}

// An informer from a config holds the same objects that client-go would have decoded.
func TestTheSameObjects(t *testing.T) {
	onAdapted(t, func(r *rig) {
		r.put(pod("a"))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Phase: corev1.NodeRunning}}
		_, err := r.srv.Create(node)
		require.NoError(r, err)
		theirs, ours := stock.factory(r.T, r.cfg, 0), r.side.factory(r.T, r.cfg, 0)
		for _, f := range []informers.SharedInformerFactory{theirs, ours} {
			f.Core().V1().Pods().Informer()
			f.Core().V1().Nodes().Informer()
			defer f.Shutdown()
			f.StartWithContext(r.ctx)
			require.NoError(r, f.WaitForCacheSyncWithContext(r.ctx).AsError())
		}
		defer r.cancel()
		r.put(pod("b"))
		synctest.Wait()
		wanted, err := theirs.Core().V1().Pods().Lister().List(labels.Everything())
		require.NoError(r, err)
		require.Len(r, wanted, 2)
		got, err := ours.Core().V1().Pods().Lister().List(labels.Everything())
		require.NoError(r, err)
		require.ElementsMatch(r, wanted, got)
		wantedNode, err := theirs.Core().V1().Nodes().Lister().Get("n")
		require.NoError(r, err)
		gotNode, err := ours.Core().V1().Nodes().Lister().Get("n")
		require.NoError(r, err)
		require.Equal(r, wantedNode, gotNode)
	})
}

func refusing(any) (any, error) { return nil, errors.New("no") }

func TestErrorNamesTheUsersTransform(t *testing.T) {
	onAdapted(t, func(r *rig) {
		r.put(pod("a"))
		f := clientgo.NewSharedInformerFactory(clientset(r.T, r.cfg), 0, clientgo.WithTransform(refusing))
		f.Core().V1().Pods().Informer()
		defer f.Shutdown()
		defer r.cancel()
		f.StartWithContext(r.ctx)
		settle(time.Second)
		require.Contains(r, f.Status()[0].Reflector.Failure.Handler, "refusing")
		require.Contains(r, f.Status()[0].Reflector.Failure.Handler, "factory_test.go:")
	})
}

func TestOptions(t *testing.T) {
	onAdapted(t, func(r *rig) {
		r.put(pod("a"))
		r.label("b", "db")
		other := pod("c")
		other.Namespace = "bank"
		r.put(other)
		options := []clientgo.Option{
			clientgo.WithNamespace("shop"),
			clientgo.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "app=web" }),
			clientgo.WithTransform(func(o any) (any, error) {
				o.(metav1.Object).SetAnnotations(map[string]string{"seen": "yes"})
				return o, nil
			}),
			clientgo.WithCustomResyncConfig(map[metav1.Object]time.Duration{&corev1.Pod{}: 10 * time.Second}),
		}
		f := clientgo.NewSharedInformerFactory(clientset(r.T, r.cfg), time.Hour, options...)
		if r.side.name == "from a config" {
			var err error
			f, err = clientgo.NewSharedInformerFactoryForConfig(r.cfg, time.Hour, options...)
			require.NoError(r, err)
		}
		d := &diary{}
		_, err := f.Core().V1().Pods().Informer().AddEventHandler(d)
		require.NoError(r, err)
		defer f.Shutdown()
		defer r.cancel()
		f.StartWithContext(r.ctx)
		require.Equal(r, []string{"initial a=web"}, d.read())
		r.label("b", "web")
		require.Equal(r, []string{"add b=web"}, d.read(), "the selector holds for the watch too")
		settle(15 * time.Second)
		require.Len(r, d.read(), 2, "a resync")
		got, err := f.Core().V1().Pods().Lister().Pods("shop").Get("b")
		require.NoError(r, err)
		require.Equal(r, "yes", got.Annotations["seen"])
		require.Equal(r, "pods in namespace shop", f.Status()[0].Reflector.Resource)

		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"app": "web"}}}
		_, err = r.srv.Create(node)
		require.NoError(r, err)
		nodes := f.Core().V1().Nodes().Lister()
		f.StartWithContext(r.ctx)
		synctest.Wait()
		_, err = nodes.Get("n")
		require.NoError(r, err, "nodes are in no namespace")
	})
}

// Dropped fields are absent, and the remaining parts are shared by all factories for a config.
func TestFieldsThatAreKept(t *testing.T) {
	keep := clientgo.WithKeep(wire.WithoutManagedFields)
	on(t, stock, func(r *rig) {
		defer r.cancel()
		for _, name := range []string{"a", "b", "c", "d"} {
			p := pod(name)
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1"}}
			r.put(p)
		}
		typed, err := clientgo.NewSharedInformerFactoryForConfig(r.cfg, 0, keep)
		require.NoError(r, err)
		defer typed.Shutdown()
		defer r.cancel()
		bare, err := clientgo.NewMetadataSharedInformerFactoryForConfig(r.cfg, 0, keep)
		require.NoError(r, err)
		defer bare.Shutdown()
		defer r.cancel()
		pods, places := typed.Core().V1().Pods().Informer(), bare.ForResource(podResource).Informer()
		typed.StartWithContext(r.ctx)
		bare.StartWithContext(r.ctx)
		require.NoError(r, typed.WaitForCacheSyncWithContext(r.ctx).Err)
		_, err = bare.WaitForCacheSyncWithContext(r.ctx)
		require.NoError(r, err)
		for _, store := range []cache.Store{pods.GetStore(), places.GetStore()} {
			require.Len(r, store.List(), 4)
			for _, o := range store.List() {
				require.Empty(r, o.(metav1.Object).GetManagedFields())
				require.Equal(r, map[string]string{"app": "web"}, o.(metav1.Object).GetLabels())
			}
		}
		require.Less(r, labelsOf(pods.GetStore().List()), 4, "what comes a second time is there once from then on, but where another part has its place")

		client := clientset(r.T, r.cfg)
		require.PanicsWithValue(r, "clientgo: WithKeep requires a factory created for a config, as by NewSharedInformerFactoryForConfig: a clientset decodes whole objects",
			func() { clientgo.NewSharedInformerFactory(client, 0, keep) })
		for _, make := range []func(){
			func() { clientgo.NewDynamicSharedInformerFactory(nil, 0, keep) },
			func() { clientgo.NewMetadataSharedInformerFactory(nil, 0, keep) },
		} {
			require.Panics(r, make)
		}
	})
}

func TestFactoryNameIsReleased(t *testing.T) {
	name, err := cache.NewInformerName("the test's")
	require.NoError(t, err)
	f := clientgo.NewSharedInformerFactory(fake.NewClientset(), 0, clientgo.WithInformerName(name))
	require.Same(t, name, f.InformerName())
	f.Shutdown()
	f.Shutdown()
	again, err := cache.NewInformerName("the test's")
	require.NoError(t, err)
	again.Release()
}

func TestCallersInformerIsUsedUnchanged(t *testing.T) {
	f := clientgo.NewSharedInformerFactory(fake.NewClientset(), 0)
	mine := f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, "shop", resync, nil, nil)
	})
	require.Same(t, mine.GetIndexer(), f.Core().V1().Pods().Informer().GetIndexer())
	_, ok := clientgo.Status(mine)
	require.False(t, ok)
}

// The config's transport wrappers stay in place, and no compression is requested.
func TestTheTransportOfAConfig(t *testing.T) {
	on(t, adapted[1], func(r *rig) {
		var mu sync.Mutex
		var seen []*http.Request
		r.cfg.UserAgent, r.cfg.BearerToken = "tester", "secret"
		r.cfg.Impersonate.UserName = "ann"
		r.cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, req)
				return next.RoundTrip(req)
			})
		})
		r.run(r.pods(0))
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(r, seen)
		for _, req := range seen {
			require.Equal(r, "identity", req.Header.Get("Accept-Encoding"))
			require.Equal(r, "tester", req.Header.Get("User-Agent"))
			require.Equal(r, "Bearer secret", req.Header.Get("Authorization"))
			require.Equal(r, "ann", req.Header.Get("Impersonate-User"))
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestABadConfig(t *testing.T) {
	for _, cfg := range []*clientrest.Config{
		{Host: "http://a b"},
		{Host: "https://x", TLSClientConfig: clientrest.TLSClientConfig{CAFile: "/none/such"}},
	} {
		_, err := clientgo.FromConfig(cfg)
		require.Error(t, err)
		_, err = clientgo.NewSharedInformerFactoryForConfig(cfg, 0)
		require.Error(t, err)
		_, err = clientgo.NewDynamicSharedInformerFactoryForConfig(cfg, 0)
		require.Error(t, err)
	}
}

func TestWaitingForSyncSaysWhy(t *testing.T) {
	onAdapted(t, func(r *rig) {
		r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}}})
		f := r.side.factory(r.T, r.cfg, 0)
		f.Core().V1().Pods().Informer()
		defer f.Shutdown()
		defer r.cancel()
		f.StartWithContext(r.ctx)
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		err := f.WaitForCacheSyncWithContext(ctx).AsError()
		require.ErrorContains(r, err, "not synced: pods: list: forbidden: ")
		require.ErrorContains(r, err, "attempts, last")
		require.ErrorIs(r, err, context.DeadlineExceeded)
	})
}

// resourceFactory returns informers by resource.
type resourceFactory interface {
	Start(<-chan struct{})
	ForResource(schema.GroupVersionResource) informers.GenericInformer
	WaitForCacheSync(<-chan struct{}) map[schema.GroupVersionResource]bool
	Shutdown()
}

func TestFactoriesByResource(t *testing.T) {
	on(t, stock, func(r *rig) {
		r.put(pod("a"))
		dynamicClient, err := dynamic.NewForConfig(r.cfg)
		require.NoError(r, err)
		metadataClient, err := metadata.NewForConfig(r.cfg)
		require.NoError(r, err)
		directDynamic, err := clientgo.NewDynamicSharedInformerFactoryForConfig(r.cfg, 0)
		require.NoError(r, err)
		directMetadata, err := clientgo.NewMetadataSharedInformerFactoryForConfig(r.cfg, 0)
		require.NoError(r, err)
		var used []resourceFactory
		defer func() {
			r.cancel()
			for _, f := range used {
				f.Shutdown()
			}
		}()
		for name, sides := range map[string][]resourceFactory{
			"dynamic": {
				dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0),
				clientgo.NewDynamicSharedInformerFactory(dynamicClient, 0), directDynamic,
			},
			"metadata": {
				metadatainformer.NewSharedInformerFactory(metadataClient, 0),
				clientgo.NewMetadataSharedInformerFactory(metadataClient, 0), directMetadata,
			},
		} {
			var wanted any
			for n, f := range sides {
				what := fmt.Sprintf("%s %d", name, n)
				used = append(used, f)
				g := f.ForResource(podResource)
				f.Start(r.ctx.Done())
				require.Equal(r, map[schema.GroupVersionResource]bool{podResource: true}, f.WaitForCacheSync(r.ctx.Done()), what)
				got, err := g.Lister().ByNamespace("shop").Get("a")
				require.NoError(r, err, what)
				if o, ok := got.(*metav1.PartialObjectMetadata); ok { // stock client-go does not know its kind
					untyped := *o
					untyped.TypeMeta = metav1.TypeMeta{}
					got = &untyped
				}
				if n == 0 {
					wanted = got
				}
				require.Equal(r, wanted, got, what)
			}
		}
	})
}

func TestFactoriesByResourceOverFakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: pod("a").ObjectMeta}
		types := metadatafake.NewTestScheme()
		require.NoError(t, metav1.AddMetaToScheme(types))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for name, f := range map[string]*clientgo.ResourceFactory{
			"dynamic":  clientgo.NewDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(scheme.Scheme, pod("a")), 0),
			"metadata": clientgo.NewMetadataSharedInformerFactory(metadatafake.NewSimpleMetadataClient(types, o), 0),
		} {
			g := f.ForResource(podResource)
			defer f.Shutdown()
			defer cancel()
			f.StartWithContext(ctx)
			_, err := f.WaitForCacheSyncWithContext(ctx)
			require.NoError(t, err, name)
			_, err = g.Lister().ByNamespace("shop").Get("a")
			require.NoError(t, err, name)
			require.Equal(t, "pods", f.Status()[0].Reflector.Resource)
		}
	})
}

func TestADirectInformerOfAResourceThatIsNotServed(t *testing.T) {
	on(t, stock, func(r *rig) {
		f, err := clientgo.NewDynamicSharedInformerFactoryForConfig(r.cfg, 0)
		require.NoError(r, err)
		f.ForResource(schema.GroupVersionResource{Group: "nowhere.example.com", Version: "v1", Resource: "things"})
		defer f.Shutdown()
		defer r.cancel()
		f.StartWithContext(r.ctx)
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		_, err = f.WaitForCacheSyncWithContext(ctx)
		require.ErrorContains(r, err, "not synced: things.nowhere.example.com: resolve: ")
	})
}

// informer-debug attaches to a program that runs the factory and shows its caches.
func TestInformerDebugSeesTheFactory(t *testing.T) {
	for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
		on(t, side{name: store.String()}, func(r *rig) {
			r.label("a", "web")
			r.label("b", "db")
			f, err := clientgo.NewSharedInformerFactoryForConfig(r.cfg, 0, clientgo.WithStore(store))
			require.NoError(r, err)
			pods := f.Core().V1().Pods().Informer()
			require.NoError(r, pods.AddIndexers(cache.Indexers{"app": func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Labels["app"]}, nil }}))
			process := debug.New(debug.Options{Informers: debug.Of(f), Contents: true}).Client()
			which := debug.Which{Informer: "pods"}

			idle, err := process.Objects(r.ctx, which, debug.Page{})
			require.NoError(r, err)
			require.Empty(r, idle.Heads, "it does not run yet")

			defer f.Shutdown()
			defer r.cancel()
			f.StartWithContext(r.ctx)
			synctest.Wait()
			seen, err := process.Objects(r.ctx, which, debug.Page{Selector: "app=web"})
			require.NoError(r, err)
			require.Len(r, seen.Heads, 1)
			require.Equal(r, "a", seen.Heads[0].Name)
			require.Equal(r, 2, seen.Cached)
			one, err := process.Object(r.ctx, which, object.Key{Namespace: "shop", Name: "a"})
			require.NoError(r, err)
			require.Contains(r, string(one.Contents), `"app":"web"`)
			indexes, err := process.Indexes(r.ctx, which, 10)
			require.NoError(r, err)
			require.True(r, slices.ContainsFunc(indexes.Indexes, func(i indexer.IndexStatus) bool { return i.Name == "app" && len(i.Largest) == 2 }), indexes)
		})
	}
}

// As in client-go, a factory without a client has informers that unit tests can fill.
func TestFactoriesWithoutAClient(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	f := clientgo.NewSharedInformerFactory(nil, 0)
	require.NoError(t, f.Core().V1().Pods().Informer().GetStore().Add(p))
	got, err := f.Core().V1().Pods().Lister().Pods("shop").Get("web")
	require.NoError(t, err)
	require.Same(t, p, got)
	of, err := f.ForResource(pods)
	require.NoError(t, err)
	require.Equal(t, []string{"shop/web"}, of.Informer().GetStore().ListKeys())
	require.Empty(t, clientgo.NewDynamicSharedInformerFactory(nil, 0).ForResource(pods).Informer().GetStore().ListKeys())
	require.Empty(t, clientgo.NewMetadataSharedInformerFactory(nil, 0).ForResource(pods).Informer().GetStore().ListKeys())
}
