package controllerruntime_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/test/debugger"
	millrace "github.com/millrace-dev/millrace/workqueue"
)

// shownQueue is the work queue of a controller as the process exposes it.
type shownQueue struct {
	*controllerruntime.Queue[ctrl.Request]
}

// Contents implements debug.Queue.
func (q shownQueue) Contents(n int) (all millrace.Contents[string]) {
	c := q.Queue.Contents(n)
	text := func(of []millrace.Held[ctrl.Request]) (all []millrace.Held[string]) {
		for _, h := range of {
			all = append(all, millrace.Held[string]{Key: h.Key.String(), Priority: h.Priority, Since: h.Since, Due: h.Due, Again: h.Again, Requeues: h.Requeues})
		}
		return all
	}
	return millrace.Contents[string]{Running: text(c.Running), Waiting: text(c.Waiting), Delayed: text(c.Delayed)}
}

// informer-debug reports the state of an operator written with controller-runtime, on a real API
// server: first that all is well, and then which handler is slow and where the cache has drifted.
func TestInformerDebugOfAnOperator(t *testing.T) {
	srv := envtest.Start(t, envtest.Options{})
	ctrl.SetLogger(logr.Discard())
	cfg, err := clientcmd.BuildConfigFromFlags("", srv.Kubeconfig)
	require.NoError(t, err)
	cfg.QPS = -1
	kinds := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(kinds))
	kinds.AddKnownTypes(greetingVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(kinds, greetingVersion)
	c, err := client.New(cfg, client.Options{Scheme: kinds})
	require.NoError(t, err)
	define(t, c)
	var deaf debugger.Deaf
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		deaf.Next = next
		return &deaf
	})

	// The operator, with the line that makes it use this cache, and two that expose it.
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: kinds, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		NewCache: controllerruntime.NewCache,
	})
	require.NoError(t, err)
	var queues []debug.Queue
	require.NoError(t, install(m, controller.Options{NewQueue: func(name string, limiter workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		made := controllerruntime.NewQueue(name, limiter)
		queues = append(queues, shownQueue{made.(*controllerruntime.Queue[ctrl.Request])})
		return made
	}}))
	informer, err := m.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
	require.NoError(t, err)
	held := make(chan struct{})
	let := sync.OnceFunc(func() { close(held) })
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if o.(*corev1.ConfigMap).Name == "slow" {
			<-held
		}
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	defer func() {
		let()
		cancel()
		require.NoError(t, <-ended)
	}()
	require.True(t, m.GetCache().WaitForCacheSync(ctx))
	shown := httptest.NewServer(debug.New(debug.Options{
		Informers: debug.Of(m.GetCache().(*controllerruntime.Cache)), Contents: true, Queues: func() []debug.Queue { return queues },
	}))
	defer shown.Close()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "debug-"}}
	require.NoError(t, c.Create(ctx, ns))
	everywhere := debugger.New(t, "../..").In(t, "--attach="+shown.URL, "--kubeconfig="+srv.Kubeconfig)
	d := everywhere.In(t, append(everywhere.Flags, "-n", ns.Name)...)

	require.NoError(t, c.Create(ctx, secret(ns.Name, "morning")))
	g := &Greeting{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "g1"}, Spec: GreetingSpec{Secret: "morning"}}
	require.NoError(t, c.Create(ctx, g))
	const greetings = "greetings.adapters.example.com"
	d.Run(0, "wait", "configmaps/g1", "--for=jsonpath={.data.words}=good morning")
	d.Run(0, "wait", greetings+"/g1", "--for=jsonpath={.status.said}=good morning")
	d.Run(0, "wait", "configmaps", "secrets", greetings, "--for=synced")
	d.Run(0, "wait", "greeting", "--for=queue=0")
	list := d.Run(0, "get")
	for _, name := range []string{"configmaps", "secrets", greetings} {
		require.Regexp(t, `(?m)^`+name+` +Watching +true `, list)
	}
	require.Equal(t, greetings+"/g1\n", d.Run(0, "get", greetings, "-o", "name"))
	require.Equal(t, "good morning", d.Run(0, "get", greetings+"/g1", "-o", "jsonpath={.status.said}"))
	hidden, _ := d.Said(0, "get", "secrets/morning", "-o", "json")
	require.NotContains(t, hidden, "Z29vZCBtb3JuaW5n")
	require.Regexp(t, `^(\S+: \d+ objects equal at version \d+\n){3}$`, everywhere.Run(0, "check"))
	require.Contains(t, d.Run(0, "why", greetings+"/g1"), "The cache has "+greetings+"/g1, same as the server")
	require.Contains(t, d.Run(0, "why", greetings+"/g1"), "apparently nothing is reconciled")
	d.Top("configmaps", "secrets", "Watching")

	// A slow handler is named by its source line.
	for _, name := range []string{"slow", "next"} {
		require.NoError(t, c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}}))
	}
	require.Regexp(t, `^The handler \S*debugger_test\.go:\d+ of configmaps \(\*v1\.ConfigMap\) is \S+ behind, with \d+ pending events; its longest call has taken `, d.Until("behind", 0, "why", "configmaps/next"))
	_, said := d.Said(124, "wait", "configmaps", "--for=lag<1s", "--timeout=200ms")
	require.Regexp(t, `handler \S*debugger_test\.go:\d+ is \S+ behind`, said)
	let()
	d.Run(0, "wait", "configmaps", "--for=lag<1s")

	// An object that the cache has missed is named, too.
	deaf.To("g1")
	words := &corev1.ConfigMap{}
	require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(g), words))
	before := words.ResourceVersion
	words.Data["words"] = "something else"
	require.NoError(t, c.Update(ctx, words))
	stop := changing(t, c, ns.Name)
	found := d.Run(4, "check", "configmaps")
	stop()
	require.Regexp(t, `^configmaps: 1 of \d+ objects differ at version \d+ \(1 version\)\n`+
		`  version  `+ns.Name+`/g1  version `+before+` in the cache, `+words.ResourceVersion+` on the server\n$`, found)
	require.Contains(t, d.Run(0, "why", "configmaps/g1"), `data.words: "good morning"→"something else"`)
	deaf.To("")
	require.NoError(t, c.Delete(ctx, words))
	d.Run(0, "wait", "configmaps/g1", "--for=jsonpath={.data.words}=good morning")
	d.Run(0, "check", "configmaps")
}

// changing changes an object in a namespace repeatedly, so that caches advance.
func changing(t *testing.T, c client.Client, namespace string) (stop func()) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			change := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "change"}}
			err := c.Create(t.Context(), change)
			if apierrors.IsAlreadyExists(err) {
				err = c.Delete(t.Context(), change)
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
