package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// hostile is text that an attacker may put into answers of the API server. Names of objects cannot
// contain it, but labels can on a server that does not validate, and so can errors.
const hostile = `<img src=x onerror="document.title='broken into'"><script>document.title='broken into'</script>`

// program is a process with all kinds of parts: two controllers, one of which is stuck on one
// object and fails on another, a slow handler, and an informer that is not allowed to list.
type program struct {
	*debug.Process
	srv    *apiservertest.Server
	pods   *sharedinformer.Informer[*corev1.Pod]
	rumour string
}

// start runs a program until the test ends. rumour is a foreign text that errors and annotations
// contain.
func start(t *testing.T, rumour string) *program {
	t.Helper()
	srv := apiservertest.New(apiservertest.Options{BookmarkPeriod: 5 * time.Second})
	t.Cleanup(srv.Close)
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	srv.Faults().Add(apiservertest.Fault{Resource: "secrets", Do: []apiservertest.Action{apiservertest.Fail{
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: `secrets is forbidden: User "janitor" cannot list it ` + rumour}}})
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	require.NoError(t, err)
	recorder := flight.New(flight.DefaultSize)
	f := factory.New(client, factory.Options{Flight: recorder})
	p := &program{rumour: rumour, srv: srv, pods: factory.Informer[*corev1.Pod](f)}
	sharedinformer.AddIndex(p.pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	maps := factory.Informer[*corev1.ConfigMap](f)
	factory.Informer[*corev1.Secret](f)
	maps.AddHandler(sharedinformer.HandlerFunc[*corev1.ConfigMap](func(ctx context.Context, e sharedinformer.Event[*corev1.ConfigMap]) error {
		if e.Object.Name == "slow" {
			<-ctx.Done()
		}
		return nil
	}))
	for n := range 120 {
		p.put(t, fmt.Sprintf("web-%03d", n), n)
	}
	for _, name := range []string{"bad", "stuck"} {
		p.put(t, name, 0)
	}
	for n := range 7 {
		_, err := srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("settings-", n)}})
		require.NoError(t, err)
	}
	p.serve(t, f, recorder, maps)
	t.Cleanup(client.CloseIdleConnections)
	return p
}

func keyOf(namespace, name string) object.Key { return object.Key{Namespace: namespace, Name: name} }

func itoa(n int) string { return strconv.Itoa(n) }

// put updates a pod.
func (p *program) put(t *testing.T, name string, n int) {
	t.Helper()
	_, err := p.srv.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: []string{"shop", "bank"}[n%2], Name: name, Labels: map[string]string{"app": []string{"web", "api"}[n%2]},
			Annotations:     map[string]string{"note": p.rumour, "written": time.Now().String()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs-1", UID: "u"}},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", n%5%3)},
	})
	require.NoError(t, err)
}

// serve runs the controllers.
func (p *program) serve(t *testing.T, f *factory.Factory, recorder *flight.Recorder, maps *sharedinformer.Informer[*corev1.ConfigMap]) {
	t.Helper()
	keeper, err := controller.New("keeper", controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
		switch r.Name {
		case "stuck":
			<-ctx.Done()
		case "bad":
			return controller.Result{}, errors.New("no quota " + p.rumour)
		}
		return controller.Result{}, nil
	}), controller.Options{Concurrency: 4, Flight: recorder})
	require.NoError(t, err)
	keeper.Watch(controller.For(p.pods))
	scribe, err := controller.New("scribe", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Minute}, nil
	}), controller.Options{Flight: recorder})
	require.NoError(t, err)
	scribe.Watch(controller.For(maps))
	controllers := []controller.View{keeper, scribe}
	p.Process = debug.New(debug.Options{
		Program: "janitor", Informers: debug.Of(f), Recorder: recorder, Contents: true,
		Controllers: func() []controller.View { return controllers },
	})
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx)
	var running sync.WaitGroup
	for _, c := range []*controller.Controller{keeper, scribe} {
		running.Go(func() { _ = c.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		f.Wait()
	})
}
