package manager_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
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
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// tenants is a program for several namespaces, one of which is forbidden for ConfigMaps. It reconciles
// ConfigMaps, Pods that own ConfigMaps, and Nodes, and records its reconciles.
type tenants struct {
	*controllertest.Env
	manager   *manager.Manager
	maps      *controller.Client[*corev1.ConfigMap]
	forbidden atomic.Pointer[string]

	mu    sync.Mutex // guards calls
	calls []string
}

func runTenants(t *testing.T, forbidden string, body func(p *tenants), namespaces ...string) {
	p := &tenants{}
	p.forbidden.Store(&forbidden)
	controllertest.RunWith(t, controllertest.Options{
		Factory: factory.Options{Namespaces: namespaces},
		Logger:  slog.New(slog.DiscardHandler),
		Server: apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool {
			return a.Resource != "configmaps" || a.Namespace != *p.forbidden.Load()
		}},
	}, func(e *controllertest.Env) {
		p.Env = e
		p.manager = e.Manager(manager.Options{})
		p.maps = controller.ClientFor[*corev1.ConfigMap](p.manager.Factory())
		called := func(kind string) controller.Func {
			return func(_ context.Context, r controller.Request) (controller.Result, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.calls = append(p.calls, kind+" "+r.String())
				return controller.Result{}, nil
			}
		}
		for _, err := range []error{
			second(manager.ControllerFor[*corev1.ConfigMap](p.manager).Build(called("map"))),
			second(manager.ControllerFor[*corev1.Pod](p.manager).Owns(p.maps).Build(called("pod"))),
			second(manager.ControllerFor[*corev1.Node](p.manager).Build(called("node"))),
			second(manager.ControllerFor[*corev1.Namespace](p.manager).Reads(p.maps).Build(called("namespace"))),
		} {
			require.NoError(e, err)
		}
		e.Start(p.manager)
		body(p)
	})
}

func second[T any](_ T, err error) error { return err }

func (p *tenants) put(namespace, name, value string) {
	controllertest.Put(p.Env, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"v": value}})
}

func (p *tenants) take() (calls []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, p.calls = p.calls, nil
	return calls
}

func (p *tenants) ready() string {
	w := httptest.NewRecorder()
	p.manager.Probes().ServeHTTP(w, httptest.NewRequest("GET", "/readyz?verbose", nil))
	return w.Body.String()
}

// A namespace that is forbidden when the program starts blocks requests in that namespace, and requests
// that may concern all namespaces. The rest is reconciled, and /readyz names the namespace.
func TestForbiddenNamespaceDoesNotDelayOthers(t *testing.T) {
	runTenants(t, "gone", func(p *tenants) {
		p.put("shop", "a", "1")
		p.put("gone", "b", "1")
		controllertest.Put(p.Env, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}})
		controllertest.Put(p.Env, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gone", Name: "q"}})
		controllertest.Put(p.Env, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		controllertest.Put(p.Env, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		p.Settle(5 * time.Second)
		require.Equal(t, []string{"node n"}, p.take(), "it begins with all namespaces, if they come soon")
		p.Settle(time.Minute)
		require.ElementsMatch(t, []string{"map shop/a", "pod shop/p"}, p.take())
		require.Contains(t, p.ready(), "configmaps in namespace gone: ")
		require.NotContains(t, p.ready(), "namespace shop")

		_, err := p.maps.Read(p.Context(), object.Key{Namespace: "shop", Name: "a"})
		require.NoError(t, err)
		_, err = p.maps.Read(p.Context(), object.Key{Namespace: "shop", Name: "none"})
		require.NotErrorIs(t, err, sharedinformer.ErrNotSynced)
		_, err = p.maps.Read(p.Context(), object.Key{Namespace: "gone", Name: "b"})
		require.ErrorIs(t, err, sharedinformer.ErrNotSynced)

		p.put("shop", "a", "2")
		p.Settle(time.Minute)
		require.Equal(t, []string{"map shop/a"}, p.take())

		none := "none"
		p.forbidden.Store(&none)
		p.Settle(5 * time.Minute)
		calls := p.take()
		require.Subset(t, calls, []string{"map gone/b", "pod gone/q", "namespace shop"})
		require.NotContains(t, calls, "map shop/a")
		require.NotContains(t, p.ready(), "[-]")
	}, "shop", "gone")
}

// A namespace that becomes forbidden later, or is added while it is forbidden, does not block anything.
func TestNamespaceThatBecomesForbiddenDoesNotDelayOthers(t *testing.T) {
	runTenants(t, "none", func(p *tenants) {
		p.put("shop", "a", "1")
		p.put("gone", "b", "1")
		p.Settle(time.Minute)
		p.take()
		gone := "gone"
		p.forbidden.Store(&gone)
		p.Settle(3 * time.Hour)
		require.Contains(t, p.ready(), "stale: ")
		require.Contains(t, p.ready(), "configmaps in namespace gone: ")
		p.take()
		p.put("shop", "a", "2")
		p.Settle(time.Minute)
		require.Equal(t, []string{"map shop/a"}, p.take())
	}, "shop", "gone")
	runTenants(t, "new", func(p *tenants) {
		p.put("shop", "a", "1")
		p.put("new", "b", "1")
		p.Settle(time.Minute)
		p.take()
		require.NoError(t, p.manager.SetNamespaces([]string{"shop", "new"}))
		p.put("shop", "a", "2")
		p.Settle(time.Minute)
		require.Equal(t, []string{"map shop/a"}, p.take())
	}, "shop")
}
