package controller_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func secret(value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, StringData: map[string]string{"v": value}}
}

// An object missing from a cache that is not synced may exist.
func TestReadFromAnUnsyncedCacheIsNotNotFound(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.SetAuthorizer(apiservertest.Deny("", "secrets"))
		secrets := controller.ClientFor[*corev1.Secret](e.Factory)
		widgets := controller.ClientWith(e.Factory, factory.For[*unstructured.Unstructured]{
			Kind: object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"}, Optional: true,
		})
		key := object.KeyOf(controllertest.Put(e, secret("1")))
		fails := func(want string) {
			e.Helper()
			_, err := secrets.Read(e.Context(), key)
			require.ErrorIs(e, err, sharedinformer.ErrNotSynced)
			require.False(e, apierrors.IsNotFound(err))
			require.ErrorContains(e, err, "read shop/s: not synced: "+want)
			_, _, err = controller.CreateOrUpdate(e.Context(), secrets, secret("2"), func(*corev1.Secret) error { return nil })
			require.ErrorIs(e, err, sharedinformer.ErrNotSynced)
		}
		fails("secrets: the informer is not running")
		e.Start()
		fails("secrets: list: forbidden: ")
		_, err := widgets.Read(e.Context(), key)
		require.True(e, apierrors.IsNotFound(err), "nobody has one of a kind that is not served: %v", err)

		e.Server.SetAuthorizer(nil)
		e.Settle(time.Minute)
		s, err := secrets.Read(e.Context(), key)
		require.NoError(e, err)
		require.Equal(e, "s", s.Name)
		_, err = secrets.Read(e.Context(), object.Key{Namespace: "shop", Name: "t"})
		require.True(e, apierrors.IsNotFound(err))
	})
}

// A kind that bypasses the cache is read from the server. This needs no rights to list and watch it, and
// a reconcile sees its own writes without waiting.
func TestAKindThatBypassesTheCache(t *testing.T) {
	opts := controllertest.Options{Factory: factory.Options{DisableFor: []object.GVK{corev1.SchemeGroupVersion.WithKind("Secret")}}}
	controllertest.RunWith(t, opts, func(e *controllertest.Env) {
		e.Server.SetAuthorizer(apiservertest.Deny("", "secrets", "list", "watch"))
		secrets := controller.ClientFor[*corev1.Secret](e.Factory)
		require.Nil(e, secrets.Informer())
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		require.NotNil(e, pods.Informer())
		key := object.Key{Namespace: "shop", Name: "s"}
		e.Start()
		for _, read := range []func() error{
			func() error { _, err := secrets.Read(e.Context(), key); return err },
			func() error { _, err := pods.Read(e.Context(), key); return err },
		} {
			require.True(e, apierrors.IsNotFound(read()), "%v", read())
		}
		var outcomes []controller.Outcome
		j := &journal{do: func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			for _, value := range []string{"1", "1", "2"} {
				_, outcome, err := controller.CreateOrUpdate(ctx, secrets, secret(""), func(s *corev1.Secret) error {
					s.StringData = nil
					s.Data = map[string][]byte{"v": []byte(value)}
					return nil
				})
				require.NoError(e, err)
				outcomes = append(outcomes, outcome)
			}
			return controller.Result{}, nil
		}}
		controllertest.Put(e, pod("a"))
		c := newController(e, j, controller.Options{}, controller.For(pods.Informer()))
		e.Start(c)
		require.Equal(e, []controller.Outcome{controller.DidCreate, controller.Unchanged, controller.DidUpdate}, outcomes)
		controllertest.Put(e, pod("a", labelled("app", "web")))
		require.Len(e, outcomes, 6)
		require.Zero(e, c.Status().ParkedTotal)
		s, err := secrets.Read(e.Context(), key)
		require.NoError(e, err)
		require.Equal(e, "2", string(s.Data["v"]))
		require.Len(e, e.Factory.Status(), 1, "no informer")

		require.PanicsWithValue(e, "secrets: there is no cache, because the kind bypasses it (factory.Options.DisableFor): use Read or Resource",
			func() { secrets.Get(key) })
	})
}

func TestObjectsOfAKindThatBypassesTheCache(t *testing.T) {
	opts := controllertest.Options{Factory: factory.Options{DisableFor: []object.GVK{corev1.SchemeGroupVersion.WithKind("Secret")}}}
	controllertest.RunWith(t, opts, func(e *controllertest.Env) {
		secrets := controller.ClientFor[*corev1.Secret](e.Factory)
		var seen []string
		r := controller.Objects(secrets, func(_ context.Context, s *corev1.Secret) (controller.Result, error) {
			seen = append(seen, s.Name)
			return controller.Result{}, nil
		})
		controllertest.Put(e, secret("1"))
		for _, name := range []string{"s", "none"} {
			_, err := r.Reconcile(e.Context(), controller.Request{Key: object.Key{Namespace: "shop", Name: name}})
			require.NoError(e, err)
		}
		require.Equal(e, []string{"s"}, seen)

		c := newController(e, r, controller.Options{}, controller.For(secrets.Informer()), controller.MapFunc(secrets.Informer(), func(*corev1.Secret) []controller.Request { return nil }))
		err := c.Run(e.Context())
		require.ErrorContains(e, err, "controller test: source *v1.Secret (controller/controller_test.go:")
		require.ErrorContains(e, err, "the source's informer is nil, perhaps because the kind bypasses the cache (factory.Options.DisableFor)")
	})
}

func TestMapFunc(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := factory.Informer[*corev1.Pod](e.Factory)
		j := &journal{}
		e.Start(newController(e, j, controller.Options{}, controller.MapFunc(pods, func(p *corev1.Pod) []controller.Request {
			return []controller.Request{{Key: object.Key{Name: "for-" + p.Name}}}
		}, controller.On[*corev1.Pod](sharedinformer.Add))))
		controllertest.Put(e, pod("a"))
		require.Equal(e, []string{"for-a"}, j.read())
		controllertest.Put(e, pod("a", labelled("app", "web")))
		require.Empty(e, j.read())
	})
}

// If a controller does not wait for a kind, the error of a read from that kind says how to make the
// controller wait.
func TestAReadOfAKindThatIsNotASource(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		e.Server.SetAuthorizer(apiservertest.Deny("", "secrets"))
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		var errs []error
		c, err := controller.New("c", controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			_, err := controller.ClientFor[*corev1.Secret](e.Factory).Read(ctx, req.Key)
			errs = append(errs, err)
			return controller.Result{RequeueAfter: time.Minute}, nil
		}), controller.Options{})
		require.NoError(e, err)
		c.Watch(controller.For(pods))
		controllertest.Put(e, pod("a"))
		e.Start(c)
		e.Settle(time.Minute)
		require.Len(e, errs, 2)
		for n, why := range []string{"the informer has only just been requested|list: forbidden: ", "list: forbidden: "} {
			require.ErrorIs(e, errs[n], sharedinformer.ErrNotSynced)
			require.Regexp(e, "read shop/a: not synced: secrets: ("+why+")", errs[n].Error())
			require.ErrorContains(e, errs[n], "; to make the controller wait for it, pass the kind to Reads of manager.ControllerFor")
			require.NotContains(e, errs[n].Error(), "call its Run")
		}
	})
}
