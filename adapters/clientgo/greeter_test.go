package clientgo_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/millrace-dev/millrace/envtest"
)

// greeter is a controller written with client-go: each namespace with the label greet has a
// ConfigMap with a greeting for the value of the label. It does not import Millrace.
type greeter struct {
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	maps       corelisters.ConfigMapLister
	synced     []cache.InformerSynced
	queue      workqueue.TypedRateLimitingInterface[string]
}

func newGreeter(client kubernetes.Interface, factory informers.SharedInformerFactory) (*greeter, error) {
	namespaces, maps := factory.Core().V1().Namespaces(), factory.Core().V1().ConfigMaps()
	g := &greeter{
		client: client, namespaces: namespaces.Lister(), maps: maps.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	forNamespace, err := namespaces.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { g.queue.Add(o.(*corev1.Namespace).Name) },
		UpdateFunc: func(_, o any) { g.queue.Add(o.(*corev1.Namespace).Name) },
	})
	if err != nil {
		return nil, err
	}
	forMap, err := maps.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(o any) bool {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			return o.(*corev1.ConfigMap).Name == "greeting"
		},
		Handler: cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, o any) { g.queue.Add(o.(*corev1.ConfigMap).Namespace) },
			DeleteFunc: func(o any) {
				key, _ := cache.DeletionHandlingObjectToName(o)
				g.queue.Add(key.Namespace)
			},
		},
	})
	if err != nil {
		return nil, err
	}
	g.synced = []cache.InformerSynced{forNamespace.HasSynced, forMap.HasSynced}
	return g, nil
}

func (g *greeter) run(ctx context.Context) {
	defer g.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), g.synced...) {
		return
	}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { wait.UntilWithContext(ctx, g.work, time.Second) })
	}
	<-ctx.Done()
	g.queue.ShutDown()
	workers.Wait()
}

func (g *greeter) work(ctx context.Context) {
	for {
		name, shutdown := g.queue.Get()
		if shutdown {
			return
		}
		if err := g.greet(ctx, name); err != nil {
			g.queue.AddRateLimited(name)
		} else {
			g.queue.Forget(name)
		}
		g.queue.Done(name)
	}
}

func (g *greeter) greet(ctx context.Context, name string) error {
	namespace, err := g.namespaces.Get(name)
	if apierrors.IsNotFound(err) || err == nil && namespace.Labels["greet"] == "" {
		return nil
	}
	if err != nil {
		return err
	}
	text := "hello " + namespace.Labels["greet"]
	have, err := g.maps.ConfigMaps(name).Get("greeting")
	switch {
	case apierrors.IsNotFound(err):
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Data: map[string]string{"text": text}}
		_, err = g.client.CoreV1().ConfigMaps(name).Create(ctx, m, metav1.CreateOptions{})
	case err == nil && have.Data["text"] != text:
		m := have.DeepCopy()
		m.Data = map[string]string{"text": text}
		_, err = g.client.CoreV1().ConfigMaps(name).Update(ctx, m, metav1.UpdateOptions{})
	}
	return err
}

// The same controller behaves the same on a real API server with every kind of informer.
func TestAControllerOnARealServer(t *testing.T) {
	srv := envtest.Start(t, envtest.Options{})
	cfg, err := clientcmd.BuildConfigFromFlags("", srv.Kubeconfig)
	require.NoError(t, err)
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	for n, s := range append([]side{stock}, adapted...) {
		t.Run(s.name, func(t *testing.T) {
			name := "team-" + string(rune('a'+n))
			factory := s.factory(t, cfg, 10*time.Minute)
			g, err := newGreeter(client, factory)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer factory.Shutdown()
			defer running.Wait()
			defer cancel()
			factory.StartWithContext(ctx)
			running.Go(func() { g.run(ctx) })

			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"greet": "ann"}}}
			namespace, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			require.NoError(t, err)
			text := func() string {
				m, err := client.CoreV1().ConfigMaps(name).Get(ctx, "greeting", metav1.GetOptions{})
				if err != nil {
					return ""
				}
				return m.Data["text"]
			}
			becomes := func(want string) {
				t.Helper()
				require.Eventually(t, func() bool { return text() == want }, 30*time.Second, 20*time.Millisecond, "%q is not %q", text(), want)
			}
			becomes("hello ann")
			namespace.Labels["greet"] = "bob"
			_, err = client.CoreV1().Namespaces().Update(ctx, namespace, metav1.UpdateOptions{})
			require.NoError(t, err)
			becomes("hello bob")
			require.NoError(t, client.CoreV1().ConfigMaps(name).Delete(ctx, "greeting", metav1.DeleteOptions{}))
			becomes("hello bob")

			all, err := factory.Core().V1().Namespaces().Lister().List(labels.Everything())
			require.NoError(t, err)
			served, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			byName := map[string]*corev1.Namespace{}
			for _, o := range all {
				byName[o.Name] = o
			}
			for _, o := range served.Items {
				require.Equal(t, &o, byName[o.Name], "as client-go reads it")
			}
		})
	}
}
