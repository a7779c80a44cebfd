package controllerruntime_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// TestMain disables the error handler of utilruntime that sleeps between errors, because it counts
// from the start of the process, which is in the future of a bubble.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// side is one of the implementations that are compared.
type side struct {
	name     string
	newCache cache.NewCacheFunc
}

var (
	stock       = side{"controller-runtime", cache.New}
	newInformer = side{"NewInformer", func(cfg *rest.Config, opts cache.Options) (cache.Cache, error) {
		opts.NewInformer = clientgo.NewInformer
		return cache.New(cfg, opts)
	}}
	newCache    = side{"NewCache", controllerruntime.NewCache}
	packedCache = side{"NewCache, packed", controllerruntime.Options{Store: sharedinformer.Packed}.NewCache}
)

// rig is a simulated API server and one side, inside one bubble of
// testing/synctest.
type rig struct {
	*testing.T
	srv  *apiservertest.Server
	cfg  *rest.Config
	side side
	ctx  context.Context
	stop func() // stops everything and waits

	mu    sync.Mutex
	seen  map[request]bool
	marks bool // the last watch asked for bookmarks
}

// request is a list and watch request to the server.
type request struct{ path, labels, fields string }

// onAll runs body with stock controller-runtime and with both one-liners.
func onAll(t *testing.T, body func(r *rig)) {
	t.Helper()
	for _, s := range []side{stock, newInformer, newCache, packedCache} {
		on(t, s, body)
	}
}

func on(t *testing.T, s side, body func(r *rig)) {
	t.Helper()
	log.SetLogger(logr.Discard())
	t.Run(s.name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := apiservertest.New(apiservertest.Options{})
			endpoint, err := srv.Pipe()
			require.NoError(t, err)
			r := &rig{T: t, srv: srv, side: s, seen: map[request]bool{}}
			r.cfg = &rest.Config{Host: endpoint.URL, Dial: endpoint.DialContext, QPS: -1}
			r.cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &eavesdropper{r, next} })
			var runs sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			r.ctx = context.WithValue(ctx, runsKey{}, &runs)
			r.stop = func() {
				if s.name == stock.name {
					srv.Down() // a cancelled watch of metadata may leave a goroutine
					synctest.Wait()
				}
				cancel()
				runs.Wait()
			}
			defer srv.Close()
			defer r.stop()
			body(r)
		})
	})
}

type runsKey struct{}

// eavesdropper records lists and watches.
type eavesdropper struct {
	rig  *rig
	next http.RoundTripper
}

func (e *eavesdropper) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	if query.Has("watch") {
		e.rig.mu.Lock()
		e.rig.marks = query.Get("allowWatchBookmarks") == "true"
		e.rig.seen[request{req.URL.Path, query.Get("labelSelector"), query.Get("fieldSelector")}] = true
		e.rig.mu.Unlock()
	}
	return e.next.RoundTrip(req)
}

// requests returns the watches in order.
func (r *rig) requests() []request {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []request
	for seen := range r.seen {
		all = append(all, seen)
	}
	slices.SortFunc(all, func(a, b request) int {
		return slices.Compare([]string{a.path, a.labels, a.fields}, []string{b.path, b.labels, b.fields})
	})
	return all
}

// bookmarks reports whether the last watch asked for bookmarks.
func (r *rig) bookmarks() bool {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.marks
}

// cache returns a cache that does not run.
func (r *rig) cache(opts cache.Options) cache.Cache {
	r.Helper()
	c, err := r.side.newCache(r.cfg, opts)
	require.NoError(r, err)
	return c
}

// running returns a cache that runs until the test ends.
func (r *rig) running(opts cache.Options) cache.Cache {
	r.Helper()
	c := r.cache(opts)
	r.start(c)
	return c
}

func (r *rig) start(c manager.Runnable) {
	r.ctx.Value(runsKey{}).(*sync.WaitGroup).Go(func() {
		if err := c.Start(r.ctx); err != nil {
			r.Error(err)
		}
	})
	synctest.Wait()
}

func pod(namespace, name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: "node-" + app},
	}
}

// put creates or updates objects.
func (r *rig) put(all ...object.Object) {
	r.Helper()
	for _, o := range all {
		_, err := r.srv.Put(o)
		require.NoError(r, err)
	}
}

func (r *rig) delete(p *corev1.Pod) {
	r.Helper()
	require.NoError(r, r.srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), object.KeyOf(p)))
}

// names returns the sorted names of pods, with their namespaces.
func (r *rig) names(c client.Reader, opts ...client.ListOption) []string {
	r.Helper()
	var list corev1.PodList
	require.NoError(r, c.List(r.ctx, &list, opts...))
	names := []string{}
	for _, p := range list.Items {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	slices.Sort(names)
	return names
}

// settle waits for d, and then until all goroutines block.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// podForms are empty Pods in each form, metadata first, so that it gets its own informer.
func podForms() []client.Object {
	part, raw := &metav1.PartialObjectMetadata{}, &unstructured.Unstructured{}
	part.SetGroupVersionKind(podKind)
	raw.SetGroupVersionKind(podKind)
	return []client.Object{part, &corev1.Pod{}, raw}
}

func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func kindOf(o client.Object) schema.GroupVersionKind { return o.GetObjectKind().GroupVersionKind() }
