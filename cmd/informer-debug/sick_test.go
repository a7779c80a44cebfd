package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// sick is a program with a fault in it. It watches the pods of namespace shop on its own server and
// exposes its state.
type sick struct {
	*testing.T
	server   *apiservertest.Server
	factory  *factory.Factory
	pods     *sharedinformer.Informer[*corev1.Pod]
	client   *rest.Client
	address  string // of the server
	recorder *flight.Recorder
	keepers  []*controller.Controller
	election *leaderelection.Status
}

func newSick(t *testing.T) *sick {
	t.Helper()
	p := &sick{T: t, recorder: flight.New(1 << 17)}
	p.server, p.address = debugtest.Cluster(t, apiservertest.Options{})
	client, err := rest.NewClient(&config.Config{Host: p.address[len("--server="):]}, scheme.New())
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	p.client = client
	p.factory = factory.New(client, factory.Options{Namespaces: []string{"shop"}, Flight: p.recorder})
	p.pods = factory.Informer[*corev1.Pod](p.factory)
	return p
}

// keeper adds a controller of pods with one worker.
func (p *sick) keeper(reconcile func(ctx context.Context, name string) error, predicates ...controller.Predicate[*corev1.Pod]) {
	p.Helper()
	c, err := controller.New("keeper", controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
		return controller.Result{}, reconcile(ctx, r.Name)
	}), controller.Options{Flight: p.recorder})
	require.NoError(p, err)
	c.Watch(controller.For(p.pods, predicates...))
	p.keepers = append(p.keepers, c)
}

// run runs the program until the test ends, and returns the flag that attaches to it. The program
// may have more factories.
func (p *sick) run(more ...*factory.Factory) string {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	informers := []debug.Informers{}
	for _, f := range append(more, p.factory) {
		f.Start(ctx)
		p.Cleanup(f.Wait)
		informers = append(informers, f)
	}
	ended := make(chan error)
	for _, c := range p.keepers {
		go func() { ended <- c.Run(ctx) }()
	}
	shown := httptest.NewServer(debug.New(debug.Options{
		Informers: debug.Of(informers...), Recorder: p.recorder, Contents: true,
		Controllers: func() (all []controller.View) {
			for _, c := range p.keepers {
				all = append(all, c)
			}
			return all
		},
		Election: func() *leaderelection.Status { return p.election },
	}))
	p.Cleanup(func() {
		shown.Close()
		cancel()
		for range p.keepers {
			<-ended // some are stopped before they start
		}
	})
	return "--attach=" + shown.URL
}

// put creates or updates pods of the shop.
func (p *sick) put(names ...string) {
	p.Helper()
	for _, name := range names {
		debugtest.Put(p.T, p.server, object.Key{Namespace: "shop", Name: name}, corev1.PodRunning)
	}
}

// often does something twenty times a second until the test ends.
func (p *sick) often(do func(n int)) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				do(n)
			}
		}
	}()
	p.Cleanup(func() { close(stop); <-done })
}

// changes changes web-1 often.
func (p *sick) changes() {
	p.often(func(n int) {
		phase := []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[n%2]
		debugtest.Put(p.T, p.server, object.Key{Namespace: "shop", Name: "web-1"}, phase)
	})
}

// hang is a reconcile, or a call of a handler, that never returns.
func hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return nil
}

// handles adds a handler that is called auditor.
func (p *sick) handles(add func(ctx context.Context, pod *corev1.Pod, initial bool) error) {
	p.pods.AddHandlerWith(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: add}, sharedinformer.HandlerOptions{Name: "auditor"})
}

// rewrites updates the object that it reconciles.
func (p *sick) rewrites(ctx context.Context, name string) error {
	pods := controller.ClientFor[*corev1.Pod](p.factory)
	pod, ok := pods.Copy(object.Key{Namespace: "shop", Name: name})
	if !ok {
		return nil
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "seen", time.Now().Format(time.RFC3339Nano))
	_, err := pods.Update(ctx, pod)
	return err
}

var errQuota = errors.New("no quota is left")
