package clientgo_test

import (
	"context"
	"fmt"
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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

func TestMain(m *testing.M) {
	// The second handler remembers the time of the last error, which may be in the future of a
	// bubble, and sleeps.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// side is one of the implementations that are compared.
type side struct {
	name    string
	factory func(*testing.T, *clientrest.Config, time.Duration) informers.SharedInformerFactory
}

var stock = side{"client-go", func(t *testing.T, cfg *clientrest.Config, resync time.Duration) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(clientset(t, cfg), resync)
}}

// adapted are the ways to use Millrace informers in a program.
var adapted = []side{
	{"over a clientset", func(t *testing.T, cfg *clientrest.Config, resync time.Duration) informers.SharedInformerFactory {
		return clientgo.NewSharedInformerFactory(clientset(t, cfg), resync)
	}},
	{"from a config", func(t *testing.T, cfg *clientrest.Config, resync time.Duration) informers.SharedInformerFactory {
		f, err := clientgo.NewSharedInformerFactoryForConfig(cfg, resync)
		require.NoError(t, err)
		return f
	}},
}

func clientset(t *testing.T, cfg *clientrest.Config) kubernetes.Interface {
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	return client
}

// rig is a simulated API server and one side, inside one bubble of
// testing/synctest.
type rig struct {
	*testing.T
	srv    *apiservertest.Server
	cfg    *clientrest.Config
	side   side
	ctx    context.Context
	cancel context.CancelFunc
	runs   sync.WaitGroup
}

// onBoth runs body with stock client-go and with each way of the adapter.
func onBoth(t *testing.T, body func(r *rig)) {
	for _, s := range append([]side{stock}, adapted...) {
		on(t, s, body)
	}
}

// onAdapted runs body with each way of the adapter.
func onAdapted(t *testing.T, body func(r *rig)) {
	for _, s := range adapted {
		on(t, s, body)
	}
}

func on(t *testing.T, s side, body func(r *rig)) { onServer(t, s, apiservertest.Options{}, body) }

// onServer is on for a server with options.
func onServer(t *testing.T, s side, opts apiservertest.Options, body func(r *rig)) {
	t.Run(s.name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := apiservertest.New(opts)
			endpoint, err := srv.Pipe()
			require.NoError(t, err)
			r := &rig{T: t, srv: srv, side: s, cfg: &clientrest.Config{Host: endpoint.URL, Dial: endpoint.DialContext, QPS: -1}}
			r.ctx, r.cancel = context.WithCancel(t.Context())
			defer srv.Close()
			defer r.runs.Wait()
			defer r.cancel()
			body(r)
		})
	})
}

// pods returns an informer of pods, not running.
func (r *rig) pods(resync time.Duration) cache.SharedIndexInformer {
	return r.side.factory(r.T, r.cfg, resync).Core().V1().Pods().Informer()
}

// run runs i until the test ends.
func (r *rig) run(i cache.SharedIndexInformer) {
	r.runs.Go(func() { i.RunWithContext(r.ctx) })
	synctest.Wait()
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}}
}

// put creates or updates a pod.
func (r *rig) put(p *corev1.Pod) *corev1.Pod {
	r.Helper()
	o, err := r.srv.Put(p)
	require.NoError(r, err)
	return o.(*corev1.Pod)
}

// label changes a pod.
func (r *rig) label(name, value string) *corev1.Pod {
	r.Helper()
	p := pod(name)
	p.Labels["app"] = value
	return r.put(p)
}

func (r *rig) delete(name string) {
	r.Helper()
	require.NoError(r, r.srv.Delete(podResource, object.Key{Namespace: "shop", Name: name}))
}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

// missing makes the informer miss the changes of change, so that it has to list.
func (r *rig) missing(change func()) {
	r.srv.Down()
	synctest.Wait()
	change()
	r.srv.Compact()
	r.srv.Up()
	settle(5 * time.Minute)
}

// settle waits for d, and then until all goroutines block.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// diary is a handler that records its calls.
type diary struct {
	mu    sync.Mutex
	lines []string
	hook  func(line string)
}

func (d *diary) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	d.mu.Lock()
	d.lines = append(d.lines, line)
	d.mu.Unlock()
	if d.hook != nil {
		d.hook(line)
	}
}

func (d *diary) OnAdd(o any, initial bool) {
	if initial {
		d.note("initial %s", describe(o))
	} else {
		d.note("add %s", describe(o))
	}
}

func (d *diary) OnUpdate(old, o any) { d.note("update %s to %s", describe(old), describe(o)) }

func (d *diary) OnDelete(o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		d.note("unknown end of %s: %s", unknown.Key, describe(unknown.Obj))
	} else {
		d.note("delete %s", describe(o))
	}
}

func describe(o any) string {
	p := o.(*corev1.Pod)
	return p.Name + "=" + p.Labels["app"]
}

// read returns the calls since the last read.
func (d *diary) read() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// keys returns the sorted keys of a store.
func keys(s cache.Store) []string {
	all := s.ListKeys()
	slices.Sort(all)
	return all
}
