package controllerruntime_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/apiservertest"
)

// BenchmarkReads reads from 10,000 Pods in 50 namespaces, as a copy and in place.
func BenchmarkReads(b *testing.B) {
	log.SetLogger(logr.Discard())
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(b, err)
	for n := range 10_000 {
		_, err := srv.Create(pod(fmt.Sprint("ns", n%50), fmt.Sprint("p", n), fmt.Sprint("app", n%100)))
		require.NoError(b, err)
	}
	for _, s := range []side{stock, newCache} {
		c, err := s.newCache(&rest.Config{Host: endpoint.URL, QPS: -1}, cache.Options{})
		require.NoError(b, err)
		require.NoError(b, c.IndexField(b.Context(), &corev1.Pod{}, "spec.nodeName", nodeOf))
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() { ended <- c.Start(ctx) }()
		require.True(b, c.WaitForCacheSync(ctx))
		for how, opts := range map[string][]client.ListOption{"copied": nil, "in place": {client.UnsafeDisableDeepCopy}} {
			var get []client.GetOption
			if opts != nil {
				get = append(get, client.UnsafeDisableDeepCopy)
			}
			b.Run("get/"+how+"/"+s.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var p corev1.Pod
					require.NoError(b, c.Get(ctx, key("ns7", "p7"), &p, get...))
				}
			})
			for what, where := range map[string]client.ListOption{
				"namespace": client.InNamespace("ns7"), "field": client.MatchingFields{"spec.nodeName": "node-app7"},
			} {
				b.Run(what+"/"+how+"/"+s.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						var list corev1.PodList
						require.NoError(b, c.List(ctx, &list, append(opts, where)...))
					}
				})
			}
		}
		cancel()
		require.NoError(b, <-ended)
	}
}

// BenchmarkQueue measures an Add, a Get and a Done.
func BenchmarkQueue(b *testing.B) {
	for name, q := range map[string]workqueue.TypedRateLimitingInterface[int]{
		"client-go":          workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{Name: "bench-1"}),
		"controller-runtime": priorityqueue.New[int]("bench-2"),
		"millrace":           controllerruntime.NewQueue[int]("bench-3", nil),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				q.Add(n % 1000)
				key, _ := q.Get()
				q.Done(key)
			}
		})
		q.ShutDown()
	}
}
