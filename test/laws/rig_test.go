package laws

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// rig is a simulated API server and a client for it, inside one bubble of testing/synctest. Time is
// virtual, and a goroutine that remains at the end fails the test.
type rig struct {
	*testing.T
	srv    *apiservertest.Server
	config config.Config
	client *rest.Client
	pool   *wire.Pool
	ctx    context.Context // ends with the test, before the server
	runs   *sync.WaitGroup // goroutines started by run
	backup *apiservertest.Snapshot
}

var pods = object.GVR{Version: "v1", Resource: "pods"}

func inBubble(t *testing.T, opts apiservertest.Options, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(opts)
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		r := &rig{T: t, srv: srv, pool: wire.NewPool(), runs: new(sync.WaitGroup)}
		r.config = config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Logger: slog.New(slog.DiscardHandler)}
		r.connect()
		var cancel context.CancelFunc
		r.ctx, cancel = context.WithCancel(t.Context())
		defer srv.Close()
		defer func() { r.client.CloseIdleConnections() }()
		defer r.runs.Wait()
		defer cancel()
		body(r)
	})
}

// connect replaces the client, which must not have been used yet.
func (r *rig) connect() {
	r.Helper()
	client, err := rest.NewClient(&r.config, sharedScheme())
	require.NoError(r, err)
	r.client = client
}

// speakCBOR makes the client request CBOR.
func (r *rig) speakCBOR() {
	r.Helper()
	r.config.CBOR = true
	r.connect()
}

var sharedScheme = sync.OnceValue(scheme.New)

// run starts i and returns a function that stops i and waits until it has ended.
func (r *rig) run(i interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	r.runs.Go(func() { ended <- i.Run(ctx) })
	r.Cleanup(cancel)
	return func() {
		r.Helper()
		cancel()
		require.NoError(r, <-ended)
	}
}

// source returns a source for informers. Its objects share equal parts, as in a factory (W03).
func (r *rig) source() *rest.Resource[*corev1.Pod] {
	return rest.ResourceFor[*corev1.Pod](r.client).Sharing(r.pool)
}

// informer returns an informer of pods that is not running.
func (r *rig) informer(opts sharedinformer.Options) *sharedinformer.Informer[*corev1.Pod] {
	return newInformer[*corev1.Pod](r.source().Source(), opts)
}

// synced returns a running and synced informer of pods, and a function that stops it.
func (r *rig) synced(opts sharedinformer.Options) (*sharedinformer.Informer[*corev1.Pod], func()) {
	r.Helper()
	i := r.informer(opts)
	stop := r.run(i)
	require.NoError(r, i.WaitForSync(r.ctx))
	return i, stop
}

func pod(name string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		p.Labels[k] = v
	}
	return p
}

// put creates or updates a pod on the server and returns its resource version.
func (r *rig) put(p *corev1.Pod) string {
	r.Helper()
	o, err := r.srv.Put(p)
	require.NoError(r, err)
	return o.GetResourceVersion()
}

func (r *rig) delete(name string) {
	r.Helper()
	require.NoError(r, r.srv.Delete(pods, object.Key{Namespace: "shop", Name: name}))
}

// truth returns the UID and resource version of each object on the server, by key.
func (r *rig) truth() map[string]string {
	truth := map[string]string{}
	for _, o := range r.srv.Objects(pods) {
		truth[object.FormatKey(object.KeyOf(o))] = version(o)
	}
	return truth
}

// cached returns the same for the cache of an informer.
func cached(i *sharedinformer.Informer[*corev1.Pod]) map[string]string {
	held := map[string]string{}
	for p := range i.Cache().All() {
		held[object.FormatKey(object.KeyOf(p))] = version(p)
	}
	return held
}

func version(o object.Head) string { return string(o.GetUID()) + "@" + o.GetResourceVersion() }

// settle waits for d, so that back-offs and timeouts can pass, and then until all goroutines are
// blocked.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// recorder is a handler that records its events and checks at each call what every handler may rely on:
// pairing (L03), identity (L04), order (L01) and that the cache is ahead (L05).
type recorder struct {
	t     testing.TB
	cache func(object.Key) (*corev1.Pod, bool)

	mu    sync.Mutex
	log   []string
	known map[object.Key]*corev1.Pod
}

func record(t testing.TB, i *sharedinformer.Informer[*corev1.Pod]) *recorder {
	return &recorder{t: t, cache: i.Cache().Get, known: map[object.Key]*corev1.Pod{}}
}

func (r *recorder) Handle(_ context.Context, e sharedinformer.Event[*corev1.Pod]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := object.KeyOf(e.Object)
	known := r.known[key]
	line := fmt.Sprintf("%s %s", e.Type, key.Name)
	switch e.Type {
	case sharedinformer.Add:
		if known != nil {
			r.t.Errorf("add of %s, which is known", key)
		}
		if e.Initial {
			line += " initial"
		}
		r.known[key] = e.Object
	case sharedinformer.Update, sharedinformer.Resync:
		switch {
		case known == nil:
			r.t.Errorf("%s of %s, which is not known", e.Type, key)
		case known.UID != e.Object.UID:
			r.t.Errorf("%s of %s changes its UID", e.Type, key)
		case e.Type == sharedinformer.Update && e.Old != known:
			r.t.Errorf("update of %s from %s, but %s was told last", key, version(e.Old), version(known))
		case newer(known, e.Object):
			r.t.Errorf("%s of %s goes back from %s to %s", e.Type, key, version(known), version(e.Object))
		}
		r.known[key] = e.Object
	case sharedinformer.Delete:
		switch {
		case known == nil:
			r.t.Errorf("delete of %s, which is not known", key)
		case known.UID != e.Object.UID:
			r.t.Errorf("delete of %s is about another UID", key)
		}
		if e.FinalStateUnknown {
			line += " unknown"
		}
		delete(r.known, key)
	}
	if now, ok := r.cache(key); e.Type != sharedinformer.Delete && ok && now.UID == e.Object.UID && newer(e.Object, now) {
		r.t.Errorf("%s of %s at %s, but the cache is at %s", e.Type, key, version(e.Object), version(now))
	}
	r.log = append(r.log, line)
	return nil
}

// newer reports whether a is a later version than b.
func newer(a, b *corev1.Pod) bool {
	order, err := object.CompareRV(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// heard returns the events recorded since the last call.
func (r *recorder) heard() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

// holds returns the objects known to the handler, in the form of rig.truth.
func (r *recorder) holds() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := map[string]string{}
	for key, p := range r.known {
		held[object.FormatKey(key)] = version(p)
	}
	return held
}
