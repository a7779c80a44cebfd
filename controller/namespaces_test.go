package controller_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
)

// tenants is a controller for two namespaces, some of which are forbidden; "*" forbids both.
type tenants struct {
	*controllertest.Env
	maps      *controller.Client[*corev1.ConfigMap]
	c         *controller.Controller
	forbidden atomic.Pointer[string]
	j         *journal
}

func runTenants(t *testing.T, forbidden string, body func(p *tenants)) {
	p := &tenants{j: &journal{}}
	p.forbidden.Store(&forbidden)
	controllertest.RunWith(t, controllertest.Options{
		Factory: factory.Options{Namespaces: []string{"shop", "gone"}},
		Server: apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool {
			f := *p.forbidden.Load()
			return a.Resource != "configmaps" || f != "*" && a.Namespace != f
		}},
	}, func(e *controllertest.Env) {
		p.Env = e
		p.maps = controller.ClientFor[*corev1.ConfigMap](e.Factory)
		p.c = newController(e, controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
			p.j.write(r.String())
			return controller.Result{}, nil
		}), controller.Options{}, controller.For(p.maps.Informer()))
		e.Start(p.c)
		body(p)
	})
}

func (p *tenants) put(namespace, name, value string) {
	controllertest.Put(p.Env, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"v": value}})
}

// A source that is added later does not delay anything.
func TestLateSourceDelaysNothing(t *testing.T) {
	runTenants(t, "gone", func(p *tenants) {
		p.put("shop", "a", "1")
		p.Settle(time.Minute)
		require.Equal(t, []string{"shop/a"}, p.j.read())
		p.c.Watch(controller.SourceFunc("slow", func(ctx context.Context, in *controller.Inbox) error { <-ctx.Done(); return nil }))
		p.put("shop", "a", "2")
		p.put("gone", "b", "2")
		p.Settle(time.Minute)
		first := p.j.read()
		none := "none"
		p.forbidden.Store(&none)
		p.Settle(time.Hour)
		rest := p.j.read()
		require.Equal(t, []string{"shop/a"}, first)
		require.True(t, slices.Contains(rest, "gone/b"))
	})
}

// After ten seconds the controller begins, if each missing namespace has failed and another namespace
// has synced.
func TestReconcilesStartSoonAfterTheOtherSourcesSync(t *testing.T) {
	runTenants(t, "*", func(p *tenants) {
		p.put("shop", "a", "1")
		p.Settle(11*time.Minute + 30*time.Second)
		gone := "gone"
		p.forbidden.Store(&gone)
		at := time.Now()
		for time.Since(at) < 10*time.Minute && p.c.Status().State == controller.Waiting {
			p.Settle(time.Second)
		}
		require.Less(t, time.Since(at), 80*time.Second, "back-off of a list is at most 45 s")
	})
}
