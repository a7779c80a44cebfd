package clientgo_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/wire"
)

// Every line of Go in the README is in this file, which runs it.
func TestReadmeExampleRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	blocks := 0
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		blocks++
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, " //")
			require.Contains(t, string(program), "\t"+strings.TrimSpace(line)+"\n")
		}
	}
	require.Equal(t, 10, blocks)
}

// worksAsUsed starts a factory and checks that it has the objects of the server.
func (r *rig) worksAsUsed(f informers.SharedInformerFactory) {
	r.Helper()
	lister := f.Core().V1().Pods().Lister()
	f.Start(r.ctx.Done())
	f.WaitForCacheSync(r.ctx.Done())
	p, err := lister.Pods("shop").Get("a")
	require.NoError(r, err)
	require.Equal(r, "a=web", describe(p))
	r.cancel()
	f.Shutdown()
}

func (r *rig) worksByResource(f resourceFactory) {
	r.Helper()
	lister := f.ForResource(podResource).Lister()
	f.Start(r.ctx.Done())
	f.WaitForCacheSync(r.ctx.Done())
	_, err := lister.ByNamespace("shop").Get("a")
	require.NoError(r, err)
	r.cancel()
	f.Shutdown()
}

// Each block of the README, line by line.
func TestLinesOfTheReadmeExample(t *testing.T) {
	const resync = 10 * time.Minute
	strip := func(o any) (any, error) { return o, nil }
	indexers := cache.Indexers{}
	run := func(name string, body func(r *rig)) {
		t.Run(name, func(t *testing.T) {
			on(t, stock, func(r *rig) {
				r.put(pod("a"))
				body(r)
			})
		})
	}
	run("typed, as it was", func(r *rig) {
		client := clientset(r.T, r.cfg)
		factory := informers.NewSharedInformerFactory(client, resync)
		r.worksAsUsed(factory)
	})
	run("typed, from a config", func(r *rig) {
		config := r.cfg
		factory, err := clientgo.NewSharedInformerFactoryForConfig(config, resync)
		require.NoError(r, err)
		r.worksAsUsed(factory)
	})
	run("typed, over a clientset", func(r *rig) {
		client := clientset(r.T, r.cfg)
		factory := clientgo.NewSharedInformerFactory(client, resync)
		r.worksAsUsed(factory)
	})
	run("options, as they were", func(r *rig) {
		client := clientset(r.T, r.cfg)
		factory := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace("shop"), informers.WithTransform(strip))
		r.worksAsUsed(factory)
	})
	run("options", func(r *rig) {
		client := clientset(r.T, r.cfg)
		factory := clientgo.NewSharedInformerFactory(client, resync, clientgo.WithNamespace("shop"), clientgo.WithTransform(strip))
		r.worksAsUsed(factory)
	})
	run("fields that are kept", func(r *rig) {
		config := r.cfg
		factory, err := clientgo.NewSharedInformerFactoryForConfig(config, resync, clientgo.WithKeep(wire.WithoutManagedFields))
		require.NoError(r, err)
		r.worksAsUsed(factory)
	})
	run("dynamic, as it was", func(r *rig) {
		dynamicClient, err := dynamic.NewForConfig(r.cfg)
		require.NoError(r, err)
		factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, resync)
		r.worksByResource(factory)
	})
	run("dynamic", func(r *rig) {
		config := r.cfg
		factory, err := clientgo.NewDynamicSharedInformerFactoryForConfig(config, resync)
		require.NoError(r, err)
		r.worksByResource(factory)
	})
	run("metadata, as it was", func(r *rig) {
		metadataClient, err := metadata.NewForConfig(r.cfg)
		require.NoError(r, err)
		factory := metadatainformer.NewSharedInformerFactory(metadataClient, resync)
		r.worksByResource(factory)
	})
	run("metadata", func(r *rig) {
		config := r.cfg
		factory, err := clientgo.NewMetadataSharedInformerFactoryForConfig(config, resync)
		require.NoError(r, err)
		r.worksByResource(factory)
	})
	run("one informer", func(r *rig) {
		var listerWatcher cache.ListerWatcher = cache.NewListWatchFromClient(clientset(r.T, r.cfg).CoreV1().RESTClient(), "pods", "", fields.Everything())
		for _, informer := range []cache.SharedIndexInformer{
			func() cache.SharedIndexInformer {
				informer := cache.NewSharedIndexInformer(listerWatcher, &corev1.Pod{}, resync, indexers)
				return informer
			}(),
			func() cache.SharedIndexInformer {
				informer := clientgo.NewInformer(listerWatcher, &corev1.Pod{}, resync, indexers)
				return informer
			}(),
		} {
			r.run(informer)
			require.Equal(r, []string{"shop/a"}, keys(informer.GetStore()))
		}
	})
	run("observed", func(r *rig) {
		informer, handler := r.pods(0), &diary{}
		var observer clientgo.Observer
		observed, err := observer.Observe("pods", informer, nil)
		require.NoError(r, err)
		registration, err := observed.AddEventHandler("my handler", handler)
		require.NoError(r, err)
		r.run(informer)
		require.True(r, registration.HasSynced())
		require.True(r, observer.Status()[0].Handlers[0].Synced)

		m, err := manager.New(&config.Config{Host: r.cfg.Host, Dial: r.cfg.Dial, Namespace: "shop"}, manager.Options{})
		require.NoError(r, err)
		registry, w := metrics.NewRegistry(), &bytes.Buffer{}
		err = m.AddInformers("client-go", &observer)
		require.NoError(r, err)
		require.True(r, m.Report().Clusters["client-go"][0].Synced)
		err = registry.AddInformers("client-go", &observer)
		require.NoError(r, err)
		err = json.NewEncoder(w).Encode(observer.Status())
		require.NoError(r, err)
		require.Contains(r, w.String(), `"Resource":"pods","State":"Watching"`)
	})
	run("client", func(r *rig) {
		config, ctx := r.cfg, r.ctx
		client, err := clientgo.FromConfig(config)
		require.NoError(r, err)
		pods := rest.ResourceFor[*corev1.Pod](client).Namespace("shop")
		p, err := pods.Get(ctx, object.Key{Name: "a"}, metav1.GetOptions{})
		require.NoError(r, err)
		require.Equal(r, "a=web", describe(p))
		informer := clientgo.NewInformerFor(pods, clientgo.ResourceOptions{ResyncPeriod: resync})
		r.run(informer)
		err = clientgo.WaitForSync(ctx, informer)
		require.NoError(r, err)
		require.Equal(r, []string{"shop/a"}, keys(informer.GetStore()))
	})
}
