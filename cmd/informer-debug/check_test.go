package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// deaf is a source of pods that omits some changes.
type deaf struct {
	resource *rest.Resource[*corev1.Pod]
	mu       sync.Mutex
	key      object.Key // of the object whose changes are omitted
}

// Describe implements source.ListerWatcher.
func (d *deaf) Describe() source.Description { return d.resource.Source().Describe() }

// List implements source.ListerWatcher.
func (d *deaf) List(ctx context.Context, opts source.Request) source.List[object.Head] {
	return d.resource.Source().List(ctx, opts)
}

func (d *deaf) ignore(key object.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.key = key
}

// Watch implements source.ListerWatcher.
func (d *deaf) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := d.resource.Source().Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			d.mu.Lock()
			drop := err == nil && d.key.Name != "" && object.KeyOf(e.Object) == d.key
			d.mu.Unlock()
			if !drop && !yield(e, err) {
				return
			}
		}
	}, nil
}

// shown are the informers that a process exposes.
type shown []sharedinformer.View

func (s shown) Views() []sharedinformer.View { return s }

func (s shown) Status() (all []sharedinformer.Status) {
	for _, v := range s {
		all = append(all, v.Status())
	}
	return all
}

// listener returns a process with one informer of pods in namespace shop, and the address to attach
// to.
func listener(t *testing.T, srv *apiservertest.Server, opts sharedinformer.Options) (*sharedinformer.Informer[*corev1.Pod], *deaf, *debug.Process) {
	t.Helper()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	require.NoError(t, err)
	from := &deaf{resource: rest.ResourceFor[*corev1.Pod](client).Namespace("shop")}
	opts.Flight = flight.New(1 << 16)
	i := sharedinformer.New[*corev1.Pod](from, opts)
	wait, err := i.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = wait() // until the test ends
		client.CloseIdleConnections()
	})
	require.NoError(t, i.WaitForSync(t.Context()))
	return i, from, debug.New(debug.Options{Informers: debug.Of(shown{i.View()}), Recorder: opts.Flight, Contents: true})
}

func TestCheckOfACluster(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "check", "po,nodes", "-n", "shop", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, fmt.Sprintf("pods in namespace shop: 2 objects equal at version %s\nnodes: 0 objects equal at version %[1]s\n", srv.RV()), r.Out)
	r = invoke(t, "check", "pods", "-A", "-l", "app in (api,web)", "--field-selector", "status.phase=Running", "-o", "json", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, `"objects": 2`)
}

func TestCheckFindsDifferences(t *testing.T) {
	for kind, c := range map[string]struct {
		change func(t *testing.T, srv *apiservertest.Server, key object.Key)
		want   string
	}{
		"missing": {func(t *testing.T, srv *apiservertest.Server, key object.Key) {
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-9"}, corev1.PodRunning)
		}, "shop/web-9  not in the cache; the server has version "},
		"ghost": {func(t *testing.T, srv *apiservertest.Server, key object.Key) {
			require.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), key))
		}, "shop/web-1  in the cache with version "},
		"version": {func(t *testing.T, srv *apiservertest.Server, key object.Key) {
			debugtest.Put(t, srv, key, corev1.PodFailed)
		}, "shop/web-1  version "},
		"uid": {func(t *testing.T, srv *apiservertest.Server, key object.Key) {
			require.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), key))
			debugtest.Put(t, srv, key, corev1.PodRunning)
		}, "it was deleted and created again"},
	} {
		t.Run(kind, func(t *testing.T) {
			srv, server := debugtest.Cluster(t, apiservertest.Options{})
			i, from, process := listener(t, srv, sharedinformer.Options{})
			at := httptest.NewServer(process)
			defer at.Close()
			key := object.Key{Namespace: "shop", Name: "web-1"}
			if from.ignore(key); kind == "missing" {
				from.ignore(object.Key{Namespace: "shop", Name: "web-9"})
			}
			c.change(t, srv, key)
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "cart-2"}, corev1.PodRunning)
			require.NoError(t, i.WaitForRV(t.Context(), srv.RV()))

			r := invoke(t, "check", "--attach="+at.URL, server)
			require.Equal(t, exit.CodeFalse, r.Code, r.ErrOut)
			require.Len(t, r.Lines(), 2, r.Out)
			require.Contains(t, r.Lines()[0], "1 of ")
			require.Contains(t, r.Lines()[0], "(1 "+kind+")")
			require.Contains(t, r.Lines()[1], c.want)
			require.Contains(t, r.ErrOut, "a cache differs from the server")
			r = invoke(t, "check", "pods in namespace shop", "-o", "json", "--attach="+at.URL, server)
			require.Contains(t, r.Out, `"kind": "`+kind+`"`)
			require.Contains(t, r.Out, `"`+kind+`": 1`)
		})
	}
}

// Objects of other replicas are not missing from the cache of a share, but its own objects are compared.
func TestCheckOfAShare(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	for n := range 40 {
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: fmt.Sprint("many-", n)}, corev1.PodRunning)
	}
	i, from, process := listener(t, srv, sharedinformer.Options{Shard: shard.Scope{Share: shard.Ordinal(0, 2)}})
	at := httptest.NewServer(process)
	defer at.Close()
	r := invoke(t, "check", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeOK, r.Code, r.Out)
	require.Regexp(t, fmt.Sprintf(`: %d objects equal at version \d+; the cache holds a replica's share of the objects, so missing ones are not recognized\n$`, i.Cache().Len()), r.Out)
	r = invoke(t, "doctor", "--attach="+at.URL, "--for=1ms", server)
	require.Equal(t, exit.CodeOK, r.Code, r.Out)
	require.Regexp(t, `(?m)^ok .* equal at version .*a replica's share`, r.Out)

	var owned []object.Key
	for o := range i.Cache().All() {
		owned = append(owned, object.KeyOf(o))
	}
	require.Greater(t, len(owned), 1)
	from.ignore(owned[0])
	require.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), owned[0]))
	debugtest.Put(t, srv, owned[1], corev1.PodFailed)
	require.NoError(t, i.WaitForRV(t.Context(), srv.RV()))
	r = invoke(t, "check", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeFalse, r.Code, r.ErrOut)
	require.Contains(t, r.Out, " (1 ghost); the cache holds")
}

// An informer of the own cluster is distinguished from one of the same name for another cluster.
func TestCheckOfTwoClusters(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	i, _, _ := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(debug.New(debug.Options{Informers: func() []debug.Cluster {
		return []debug.Cluster{{Informers: shown{i.View()}}, {Name: "east", Informers: shown{i.View()}}}
	}}))
	defer at.Close()
	r := invoke(t, "check", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Len(t, r.Lines(), 2, r.Out)
	require.Contains(t, r.ErrOut, "the informer belongs to the process's cluster east")
}

// meddler calls a function before a process answers about its objects for the second time.
type meddler struct {
	http.Handler
	asked  atomic.Int32
	meddle func()
}

func (m *meddler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/objects") && m.asked.Add(1) == 2 {
		m.meddle()
	}
	m.Handler.ServeHTTP(w, r)
}

// An object that is repeatedly deleted and recreated is missing at most instants, and yet the cache
// is right.
func TestCheckOfAnObjectThatComesAndGoes(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	i, _, process := listener(t, srv, sharedinformer.Options{})
	key := object.Key{Namespace: "shop", Name: "web-1"}
	var asked atomic.Int32
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if strings.HasSuffix(r.URL.Path, "/objects") {
			n = int(asked.Add(1))
		}
		if n < 2 || n > 4 {
			process.ServeHTTP(w, r)
			return
		}
		assert.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), key))
		assert.NoError(t, i.WaitForRV(t.Context(), srv.RV()))
		without := httptest.NewRecorder()
		process.ServeHTTP(without, r)
		debugtest.Put(t, srv, key, corev1.PodRunning)
		maps.Copy(w.Header(), without.Header())
		_, err := w.Write(without.Body.Bytes())
		assert.NoError(t, err)
	}))
	defer at.Close()
	r := invoke(t, "check", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeOK, r.Code, r.Out+r.ErrOut)
	require.Contains(t, r.Out, "objects equal at version")
	require.Greater(t, asked.Load(), int32(4))
}

// The cache is read before the list and after it.
func TestCheckIgnoresChangesAfterTheList(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	i, _, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(&meddler{Handler: process, meddle: func() {
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "new"}, corev1.PodRunning)
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed)
		assert.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "shop", Name: "cart-1"}))
		assert.NoError(t, i.WaitForRV(t.Context(), srv.RV()))
	}})
	defer at.Close()
	before, lists := srv.RV(), srv.Stats().Requests("list", "pods")
	r := invoke(t, "check", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeOK, r.Code, r.Out+r.ErrOut)
	require.Equal(t, "pods in namespace shop: 2 objects equal at version "+before+"\n", r.Out)
	require.Equal(t, lists+2, srv.Stats().Requests("list", "pods"), "what is missing was looked up again")
}

// An informer that cannot be compared is named, and the others are compared.
func TestCheckRepeats(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	named, _, _ := listener(t, srv, sharedinformer.Options{Name: "my pods"})
	pods, deaf, _ := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(shown{named.View(), pods.View()}), Contents: true}))
	defer at.Close()
	r := invoke(t, "check", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeUnavailable, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "pods in namespace shop: 2 objects equal")
	require.Contains(t, r.ErrOut, `not compared  my pods: informer "my pods" cannot be compared: `)
	require.Contains(t, r.ErrOut, "informer-debug: 1 of 2 informers could not be compared\n")

	deaf.ignore(object.Key{Namespace: "shop", Name: "web-1"})
	debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed)
	debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "cart-1"}, corev1.PodFailed)
	r = invoke(t, "check", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeFalse, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "a cache differs from the server; 1 of 2 informers could not be compared")

	r = invoke(t, "check", "--attach="+at.URL, "-n", "bank", server)
	require.Equal(t, exit.CodeUnavailable, r.Code, "of neither anything is known")
}

// While check waits for one informer, it compares the others.
func TestCheckOfAnInformerThatIsBehind(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	behind, from, _ := listener(t, srv, sharedinformer.Options{})
	well, _, _ := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(debug.New(debug.Options{Informers: func() []debug.Cluster {
		return []debug.Cluster{{Informers: shown{behind.View()}}, {Name: "east", Informers: shown{well.View()}}}
	}}))
	defer at.Close()
	from.ignore(object.Key{Namespace: "shop", Name: "web-1"})
	debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed)
	r := invoke(t, "check", "--timeout=2s", "--attach="+at.URL, server)
	require.Equal(t, exit.CodeTimeout, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "1 of 2 objects differ")
	require.Contains(t, r.Out, "which may be temporary")
	require.Contains(t, r.Out, "pods in namespace shop (*v1.Pod) of cluster east: 2 objects equal at version "+srv.RV())
}

func TestCheckExplainsUnsupportedRequests(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	_, _, process := listener(t, srv, sharedinformer.Options{})
	_, _, named := listener(t, srv, sharedinformer.Options{Name: "my pods"})
	at, other := httptest.NewServer(process), httptest.NewServer(named)
	defer at.Close()
	defer other.Close()
	another, elsewhere := debugtest.Cluster(t, apiservertest.Options{})
	for _, name := range []string{"web-1", "cart-1"} { // the recreated objects have other UIDs
		require.NoError(t, another.Delete(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "shop", Name: name}))
		debugtest.Put(t, another, object.Key{Namespace: "shop", Name: name}, corev1.PodRunning)
	}
	refused, refusing := debugtest.Cluster(t, apiservertest.Options{})
	refused.SetAuthorizer(apiservertest.Deny("", "pods", "list"))

	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"check", server}, exit.CodeUsage, "specify the types to watch"},
		{[]string{"check", "pods", "--limit=-1", server}, exit.CodeUsage, "--limit must not be negative, got -1"},
		{[]string{"check", "pods", "-l", "a=b", "--attach=" + at.URL, server}, exit.CodeUsage, "--selector cannot be used with --attach"},
		{[]string{"check", "sheep", "--attach=" + at.URL, server}, exit.CodeUnavailable, `no informer is named "sheep"; available: pods in namespace shop`},
		{[]string{"check", "--attach=" + at.URL, "-n", "bank", server}, exit.CodeUsage, "the informer does not watch namespace bank"},
		{[]string{"check", "--attach=" + at.URL, "--timeout=1s", elsewhere}, exit.CodeTimeout, "may not be the process's cluster"},
		{[]string{"check", "--attach=" + at.URL, refusing}, exit.CodeUnavailable, `request the verbs "list" and "watch"`},
		{[]string{"check", "--attach=" + other.URL, server}, exit.CodeUnavailable, `informer "my pods" cannot be compared: its name was chosen by the program`},
		{[]string{"check", "--attach=" + at.URL, "--server=http://127.0.0.1:1"}, exit.CodeUnavailable, "127.0.0.1:1"},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, c.code, r.Code, "%v: %s%s", c.args, r.Out, r.ErrOut)
		require.Contains(t, r.ErrOut, c.want, c.args)
	}
}

// Informers of one name are told apart by their Go type.
func TestInformersOfOneNameAreToldApart(t *testing.T) {
	p := newSick(t)
	p.put("web-1")
	factory.InformerWith(p.factory, factory.For[*metav1.PartialObjectMetadata]{Kind: object.GVK{Version: "v1", Kind: "Pod"}})
	at := p.run()
	r := invoke(t, "wait", "pods", "--for=synced", at)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "pods in namespace shop (*v1.Pod): ")
	require.Contains(t, r.Out, "pods in namespace shop (*v1.PartialObjectMetadata): ")
	r = invoke(t, "check", "pods", at, p.address)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `(?m)^pods in namespace shop \(\*v1\.Pod\): \d objects equal at version`, r.Out)
	require.Regexp(t, `(?m)^pods in namespace shop \(\*v1\.PartialObjectMetadata\): \d objects equal at version`, r.Out)
}
