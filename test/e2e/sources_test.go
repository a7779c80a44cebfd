package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// ledger is a reconciler that records whether each object existed when it was reconciled.
type ledger[T object.Object] struct {
	client *controller.Client[T]

	mu    sync.Mutex // guards there
	there map[string]bool
}

func (l *ledger[T]) Reconcile(_ context.Context, req controller.Request) (controller.Result, error) {
	_, ok := l.client.Get(req.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.there[req.Name] = ok
	return controller.Result{}, nil
}

// await waits until an object was seen, or seen to be deleted.
func (l *ledger[T]) await(t *testing.T, c *controller.Controller, name string, there bool) {
	t.Helper()
	poll(t, fmt.Sprintf("%s there: %t", name, there), func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if now, seen := l.there[name]; !seen || now != there {
			return fmt.Errorf("seen: %t, there: %t; %+v", seen, now, c.Status())
		}
		return nil
	})
}

// watched adds a controller with a ledger to a manager.
func watched[T object.Object](t *testing.T, m *manager.Manager, name string, client *controller.Client[T], options func(controller.Source) controller.Source) (*controller.Controller, *ledger[T]) {
	t.Helper()
	l := &ledger[T]{client: client, there: map[string]bool{}}
	c, err := controller.New(name, l, m.ControllerOptions())
	require.NoError(t, err)
	c.Watch(options(controller.For(client.Informer())))
	require.NoError(t, m.Add(c))
	return c, l
}

// quick returns the options of a factory for one namespace that retries soon.
func quick(ns string) factory.Options {
	opts := factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}}
	opts.Timing.Backoff = brisk
	return opts
}

func plain(s controller.Source) controller.Source { return s }

// readyz queries the readiness of a manager.
func readyz(m *manager.Manager) (code int, body string) {
	w := httptest.NewRecorder()
	m.Probes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz?verbose", nil))
	return w.Code, w.Body.String()
}

// TestAForbiddenKindBesideAWorkingOne: one controller works. /readyz names the kind of the other
// one and the reason, and that controller starts when the right is granted.
func TestAForbiddenKindBesideAWorkingOne(t *testing.T) {
	boss, ns := admin(t)
	grant(t, boss, ns) // for ConfigMaps
	m, err := manager.New(loadConfig(t, shared, "nobody"), manager.Options{Scheme: newScheme(t), Factory: quick(ns)})
	require.NoError(t, err)
	works, maps := watched(t, m, "works", controller.ClientFor[*corev1.ConfigMap](m.Factory()), plain)
	waits, secrets := watched(t, m, "waits", controller.ClientFor[*corev1.Secret](m.Factory()), plain)
	r := runManager(t, m)
	for n := range 3 {
		_, err := rest.ResourceFor[*corev1.ConfigMap](boss).Namespace(ns).Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
		maps.await(t, works, name(n), true)
	}
	var code int
	var body string
	poll(t, "the server has refused", func() error {
		if code, body = readyz(m); !strings.Contains(body, "forbidden") {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	require.Equal(t, http.StatusInternalServerError, code)
	forbidden := `secrets in namespace ` + ns + `: (list|watch open): forbidden: .*User "nobody" cannot (list|watch) resource "secrets"`
	require.Regexp(t, `\[-\] informers: not synced: `+forbidden, body)
	require.Regexp(t, `\[-\] runnables: controller waits: waiting for `+forbidden, body)
	require.NotContains(t, body, "configmaps")
	require.NoError(t, works.Ready())
	require.Empty(t, secrets.there)

	_, err = rest.ResourceFor[*corev1.Secret](boss).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	patch(t, rest.ResourceFor[*rbacv1.Role](boss), ns, "read", `{"rules": [{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get", "list", "watch"]}]}`)
	secrets.await(t, waits, "s", true)
	poll(t, "it is ready", func() error {
		if code, body := readyz(m); code != http.StatusOK {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	r.stop()
	require.NoError(t, <-r.ended)
}

// TestAKindComesAndGoes: a controller follows a kind that is missing when its manager starts, is
// installed and removed, and installed and removed again. The manager is ready before and after
// each, and a controller of another kind works.
func TestAKindComesAndGoes(t *testing.T) {
	client, ns := admin(t)
	kind := object.GVK{Group: "comes.example.com", Version: "v1", Kind: "Guest"}
	m, err := manager.New(loadConfig(t, shared, "admin"), manager.Options{Scheme: newScheme(t), Factory: quick(ns)})
	require.NoError(t, err)
	of := factory.For[*unstructured.Unstructured]{Kind: kind, Optional: true}
	visits, guests := watched(t, m, "guests", controller.ClientWith(m.Factory(), of), controller.Source.Optional)
	works, maps := watched(t, m, "works", controller.ClientFor[*corev1.ConfigMap](m.Factory()), plain)
	r := runManager(t, m)
	ready := func() {
		t.Helper()
		poll(t, "it is ready", func() error {
			if code, body := readyz(m); code != http.StatusOK {
				return fmt.Errorf("%s", body)
			}
			return nil
		})
	}
	work := func(n int) {
		t.Helper()
		_, err := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns).Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
		maps.await(t, works, name(n), true)
	}
	ready()
	work(0)
	require.ErrorContains(t, visits.Status().Sources[0].Waiting, "Guest")
	resource := rest.ResourceForKind[*unstructured.Unstructured](client, kind).Namespace(ns)
	for n := range 2 {
		define(t, client, "guests", kind)
		for _, guest := range []string{"ann", "bob"} {
			u := &unstructured.Unstructured{}
			u.SetName(guest)
			poll(t, guest+" comes", func() error { // the client's mapper may not know the kind yet
				_, err := resource.Create(t.Context(), u, metav1.CreateOptions{})
				return err
			})
			guests.await(t, visits, guest, true)
		}
		require.NoError(t, resource.Delete(t.Context(), object.Key{Name: "ann"}, metav1.DeleteOptions{}))
		guests.await(t, visits, "ann", false)
		require.NoError(t, visits.Status().Sources[0].Waiting)

		crds := rest.ResourceForKind[*metav1.PartialObjectMetadata](client, crdKind)
		require.NoError(t, crds.Delete(t.Context(), object.Key{Name: "guests.comes.example.com"}, metav1.DeleteOptions{}))
		guests.await(t, visits, "bob", false)
		ready()
		work(n + 1)
		poll(t, "the definition is gone", func() error { // the server stops serving the kind before that
			_, err := crds.Get(t.Context(), object.Key{Name: "guests.comes.example.com"}, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is still there, or cannot be read: %v", err)
		})
	}
	r.stop()
	require.NoError(t, <-r.ended)
}
