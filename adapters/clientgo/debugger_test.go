package clientgo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/test/debugger"
)

// informer-debug reports the state of a program written with client-go, on a real API server: first
// that all is well, and then which handler is slow and where the cache has drifted.
func TestInformerDebugOfAProgram(t *testing.T) {
	srv := envtest.Start(t, envtest.Options{})
	built := debugger.New(t, "../..")
	for n, s := range adapted {
		t.Run(s.name, func(t *testing.T) {
			name := "debug-" + string(rune('a'+n))
			cfg, err := clientcmd.BuildConfigFromFlags("", srv.Kubeconfig)
			require.NoError(t, err)
			cfg.QPS = -1
			client, err := kubernetes.NewForConfig(cfg)
			require.NoError(t, err)
			var deaf debugger.Deaf
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
				deaf.Next = next
				return &deaf
			})
			factory := s.factory(t, cfg, 0).(*clientgo.Factory)
			g, err := newGreeter(client, factory)
			require.NoError(t, err)
			held := make(chan struct{})
			let := sync.OnceFunc(func() { close(held) })
			_, err = factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
				if o.(*corev1.ConfigMap).Name == "slow" {
					<-held
				}
			}})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer factory.Shutdown()
			defer running.Wait()
			defer cancel()
			defer let()
			factory.StartWithContext(ctx)
			running.Go(func() { g.run(ctx) })
			shown := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(factory), Contents: true}))
			defer shown.Close()
			d := built.In(t, "--attach="+shown.URL, "--kubeconfig="+srv.Kubeconfig, "-n", name)
			maps := client.CoreV1().ConfigMaps(name)

			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"greet": "ann"}}}
			_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			require.NoError(t, err)
			d.Run(0, "wait", "configmaps", "--for=synced")
			d.Run(0, "wait", "configmaps/greeting", "--for=create")
			require.Contains(t, d.Run(0, "wait", "configmaps/greeting", "--for=jsonpath={.data.text}=hello ann"), "hello ann")
			require.Regexp(t, `(?m)^configmaps +Watching +true +\d+ +\d+ +2 `, d.Run(0, "get"))
			require.Equal(t, "configmaps/greeting\n", d.Run(0, "get", "configmaps", "-o", "name"))
			require.Equal(t, "hello ann", d.Run(0, "get", "configmaps/greeting", "-o", "jsonpath={.data.text}"))
			require.Regexp(t, `^configmaps: \d+ objects equal at version \d+\nnamespaces: \d+ objects equal at version \d+\n$`, built.In(t, d.Flags[:2]...).Run(0, "check"))
			require.Contains(t, d.Run(0, "why", "configmaps/greeting"), "The cache has configmaps/greeting, same as the server")
			require.Contains(t, d.Run(0, "why", "configmaps/greeting"), "apparently nothing is reconciled")
			d.Top("configmaps  Watching", "namespaces  Watching")

			// A slow handler is named by its source line.
			for _, name := range []string{"slow", "next"} {
				_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			const handler = `The handler \S*debugger_test\.go:\d+ of configmaps \(\*v1\.ConfigMap\) is \S+ behind, with \d+ pending events; its longest call has taken `
			require.Regexp(t, "^"+handler, d.Until("behind", 0, "why", "configmaps/next"))
			_, said := d.Said(124, "wait", "configmaps", "--for=lag<1s", "--timeout=200ms")
			require.Regexp(t, `handler \S*debugger_test\.go:\d+ is \S+ behind`, said)
			let()
			d.Run(0, "wait", "configmaps", "--for=lag<1s")

			// An object that the cache has missed is named, too.
			deaf.To("greeting")
			m, err := maps.Get(ctx, "greeting", metav1.GetOptions{})
			require.NoError(t, err)
			before := m.ResourceVersion
			m.Data["text"] = "something else"
			m, err = maps.Update(ctx, m, metav1.UpdateOptions{})
			require.NoError(t, err)
			stop := changing(t, client, name)
			found := d.Run(4, "check", "configmaps")
			stop()
			require.Regexp(t, `^configmaps: 1 of \d+ objects differ at version \d+ \(1 version\)\n`+
				`  version  `+name+`/greeting  version `+before+` in the cache, `+m.ResourceVersion+` on the server\n$`, found)
			require.Contains(t, d.Run(0, "why", "configmaps/greeting"), `data.text: "hello ann"→"something else"`)
			deaf.To("")
			require.NoError(t, maps.Delete(ctx, "greeting", metav1.DeleteOptions{}))
			d.Run(0, "wait", "configmaps/greeting", "--for=jsonpath={.data.text}=hello ann")
			d.Run(0, "check", "configmaps")
		})
	}
}

// changing changes an object in a namespace repeatedly, so that caches advance.
func changing(t *testing.T, client kubernetes.Interface, namespace string) (stop func()) {
	t.Helper()
	maps := client.CoreV1().ConfigMaps(namespace)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "change"}}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = maps.Delete(t.Context(), "change", metav1.DeleteOptions{})
			}
			if err != nil {
				t.Errorf("change an object: %v", err)
				return
			}
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() { close(quit); <-done }
}
