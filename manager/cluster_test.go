package manager_test

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// The namespaces of a manager change while it runs, and /readyz names a forbidden one. Cluster-scoped
// kinds are not affected.
func TestNamespacesChangeAtRunTime(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		for _, namespace := range []string{"bank", "mail", "shop"} {
			_, err := r.srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "in-" + namespace}})
			require.NoError(r, err)
		}
		_, err := r.srv.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		require.NoError(r, err)
		r.srv.SetAuthorizer(func(a apiservertest.Attributes) bool {
			return a.Resource != "pods" || a.Namespace != "bank" && a.Namespace != ""
		})
		m := r.manager(options{Namespaces: []string{"shop"}})
		pods, nodes := factory.Informer[*corev1.Pod](m.Factory()), factory.Informer[*corev1.Node](m.Factory())
		c, err := controller.New("pods", controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			r.note(controller.Causes(ctx)[0].Type.String() + " " + req.Name)
			return controller.Result{}, nil
		}), m.ControllerOptions())
		require.NoError(r, err)
		c.Watch(controller.For(pods))
		require.NoError(r, m.Add(c))
		run := r.start(m)
		require.Equal(r, []string{"initial in-shop"}, r.noted())
		require.True(r, ready(m))
		require.Equal(r, 1, nodes.Cache().Len())

		require.NoError(r, m.SetNamespaces([]string{"bank", "mail"}))
		require.Equal(r, []string{"deleted in-shop", "initial in-mail"}, sorted(r.noted()))
		settle(time.Minute)
		code, body := probe(m, "/readyz")
		require.Equal(r, 500, code)
		require.Contains(r, body, "not synced: pods in namespace bank: ")
		require.NotContains(r, body, "mail")
		require.NoError(r, m.SetNamespaces([]string{"mail"}))
		synctest.Wait()
		require.True(r, ready(m))
		require.Equal(r, 1, nodes.Cache().Len())
		require.NoError(r, run.end())

		require.ErrorIs(r, r.manager(options{}).SetNamespaces([]string{"shop"}), factory.ErrUndivided)
	})
}

// A controller gets each object again every period, from each source at a different time.
func TestSyncPeriodRequestsEveryObject(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		r.pod("a")
		r.pod("b")
		m := r.manager(options{SyncPeriod: time.Hour})
		causes := map[string]int{}
		pods := factory.Informer[*corev1.Pod](m.Factory())
		var last []time.Time
		var mu sync.Mutex // guards causes and last
		for _, name := range []string{"one", "two"} {
			c, err := controller.New(name, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, cause := range controller.Causes(ctx) {
					causes[cause.Type.String()]++
					if cause.Type == controller.Resynced {
						last = append(last, time.Now())
					}
				}
				return controller.Result{}, nil
			}), m.ControllerOptions())
			require.NoError(r, err)
			c.Watch(controller.For(pods))
			require.NoError(r, m.Add(c))
		}
		run := r.start(m)
		began := time.Now()
		settle(54*time.Minute - time.Second)
		counted := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(causes)
		}
		require.Equal(r, map[string]int{"initial": 4}, counted())
		lists := r.srv.Stats().Requests("list", "pods")
		settle(13 * time.Minute)
		require.Equal(r, map[string]int{"initial": 4, "resynced": 4}, counted())
		mu.Lock()
		require.InDelta(r, time.Hour, last[0].Sub(began), float64(6*time.Minute))
		require.NotEqual(r, last[0], last[3], "not all at one time")
		require.Equal(r, lists, r.srv.Stats().Requests("list", "pods"), "from the cache")
		mu.Unlock()
		require.NoError(r, run.end())
	})
}

func TestHooksMakeClientAndCache(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		r.pod("a")
		var asked atomic.Int64
		var own *factory.Factory
		m := r.manager(options{
			NewClient: func(cfg *config.Config, scheme *runtime.Scheme) (*rest.Client, error) {
				cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(req *http.Request) (*http.Response, error) {
						asked.Add(1)
						return next.RoundTrip(req)
					})
				}
				return rest.NewClient(cfg, scheme)
			},
			NewCache: func(client *rest.Client, opts factory.Options) (*factory.Factory, error) {
				opts.NoSharing = true
				own = factory.New(client, opts)
				return own, nil
			},
		})
		require.Same(r, own, m.Factory())
		require.Same(r, own.Client(), m.Client())
		require.Nil(r, r.cfg.WrapTransport, "the configuration is the caller's")
		factory.Informer[*corev1.Pod](m.Factory())
		run := r.start(m)
		require.NoError(r, m.WaitForSync(r.ctx))
		require.NotZero(r, asked.Load())
		require.NoError(r, run.end())

		for want, opts := range map[string]options{
			"cluster: boom": {NewClient: func(*config.Config, *runtime.Scheme) (*rest.Client, error) { return nil, errBoom }},
			"NewClient returned neither a client nor an error": {NewClient: func(*config.Config, *runtime.Scheme) (*rest.Client, error) { return nil, nil }},
			"NewCache returned neither a factory nor an error": {NewCache: func(*rest.Client, factory.Options) (*factory.Factory, error) { return nil, nil }},
		} {
			_, err := manager.New(r.cfg, opts)
			require.ErrorContains(r, err, want)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
