package rest_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire"
)

var changed = object.Key{Namespace: "shop", Name: "web"}

// changing calls body with a client of a server that has one ConfigMap, and counts the
// patches sent.
func changing(t *testing.T, body func(t *testing.T, client *rest.Client, srv *apiservertest.Server, patches *int)) {
	t.Helper()
	kinds := scheme.New()
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		patches := 0
		count := func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch {
					patches++
				}
				return next.RoundTrip(r)
			})
		}
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, WrapTransport: count}, kinds)
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		_, err = srv.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Data: map[string]string{"a": "1", "b": "1"}})
		require.NoError(t, err)
		body(t, client, srv, &patches)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// meanwhile writes a key of the ConfigMap like a concurrent client.
func meanwhile(t *testing.T, srv *apiservertest.Server, name, value string) {
	t.Helper()
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	o, err := srv.Get(maps, changed)
	require.NoError(t, err)
	m := o.(*corev1.ConfigMap).DeepCopy()
	m.Data[name] = value
	_, err = srv.Put(m)
	require.NoError(t, err)
}

func TestChangeSendsOnlyDifferences(t *testing.T) {
	changing(t, func(t *testing.T, client *rest.Client, srv *apiservertest.Server, patches *int) {
		maps := rest.ResourceFor[*corev1.ConfigMap](client)
		m, err := maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error {
			m.Data["a"] = "2"
			meanwhile(t, srv, "b", "theirs")
			return nil
		}, rest.ChangeOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "2", "b": "theirs"}, m.Data, "what another has written stays")
		require.Equal(t, 1, *patches)

		_, err = maps.Change(t.Context(), changed, func(*corev1.ConfigMap) error { return nil }, rest.ChangeOptions{Locked: true})
		require.NoError(t, err)
		require.Equal(t, 1, *patches, "nothing is sent for nothing")

		m, err = maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error { delete(m.Data, "b"); return nil }, rest.ChangeOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "2"}, m.Data, "what goes is gone")

		m, err = maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error {
			delete(m.Data, "a")
			meanwhile(t, srv, "b", "theirs")
			return nil
		}, rest.ChangeOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"b": "theirs"}, m.Data, "and nothing else, also where it was the last")

		boom := errors.New("boom")
		_, err = maps.Change(t.Context(), changed, func(*corev1.ConfigMap) error { return boom }, rest.ChangeOptions{})
		require.Equal(t, boom, err)
		_, err = maps.Change(t.Context(), object.Key{Namespace: "shop", Name: "none"}, func(*corev1.ConfigMap) error { return nil }, rest.ChangeOptions{})
		require.True(t, apierrors.IsNotFound(err))
	})
}

func TestALockedChangeTriesAgain(t *testing.T) {
	changing(t, func(t *testing.T, client *rest.Client, srv *apiservertest.Server, patches *int) {
		maps, calls := rest.ResourceFor[*corev1.ConfigMap](client), 0
		m, err := maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error {
			if calls++; calls <= 2 {
				meanwhile(t, srv, "b", "their "+string(rune('0'+calls)))
			}
			m.Data["a"] = "after " + m.Data["b"]
			return nil
		}, rest.ChangeOptions{Locked: true})
		require.NoError(t, err)
		require.Equal(t, 3, calls)
		require.Equal(t, "after their 2", m.Data["a"], "it was called with the newest")

		calls = 0
		_, err = maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error {
			calls++
			meanwhile(t, srv, "b", "x"+string(rune('0'+calls)))
			m.Data["a"] = "never"
			return nil
		}, rest.ChangeOptions{Locked: true})
		require.True(t, apierrors.IsConflict(err), "%v", err)
		require.Equal(t, 5, calls, "not for ever")
		require.Equal(t, 8, *patches)
	})
}

// A change of finalizers is retried with the newest ones, so it does not drop those of
// others.
func TestAChangeOfFinalizersIsLocked(t *testing.T) {
	changing(t, func(t *testing.T, client *rest.Client, _ *apiservertest.Server, patches *int) {
		maps := rest.ResourceFor[*corev1.ConfigMap](client)
		change := func(name string, first func()) error {
			_, err := maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error {
				first()
				m.Finalizers = append(m.Finalizers, "example.com/"+name)
				return nil
			}, rest.ChangeOptions{})
			return err
		}
		other := sync.OnceFunc(func() { require.NoError(t, change("theirs", func() {})) })
		require.NoError(t, change("ours", other))
		require.Equal(t, 3, *patches)
		m, err := maps.Get(t.Context(), changed, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"example.com/theirs", "example.com/ours"}, m.Finalizers)
	})
}

// A conflict returned by the function concerns something else and ends Change.
func TestAConflictOfTheFunctionEndsChange(t *testing.T) {
	changing(t, func(t *testing.T, client *rest.Client, srv *apiservertest.Server, patches *int) {
		conflict, calls := apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "other", errors.New("newer")), 0
		_, err := rest.ResourceFor[*corev1.ConfigMap](client).Change(t.Context(), changed, func(*corev1.ConfigMap) error {
			calls++
			return conflict
		}, rest.ChangeOptions{})
		require.Same(t, conflict, err)
		require.Equal(t, 1, calls)
	})
}

func TestRetryOnConflictEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("newer"))
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		defer cancel()
		calls := 0
		err := rest.RetryOnConflict(ctx, func() error { calls++; return conflict })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, conflict)
		require.LessOrEqual(t, calls, 2)

		calls = 0
		err = rest.RetryOnConflict(t.Context(), func() error { calls++; return errors.New("boom") })
		require.EqualError(t, err, "boom")
		require.Equal(t, 1, calls)
	})
}

// A list that was read in part must not replace the whole list.
func TestChangeOfAListInPartIsRefused(t *testing.T) {
	changing(t, func(t *testing.T, client *rest.Client, _ *apiservertest.Server, patches *int) {
		maps := rest.ResourceFor[*corev1.ConfigMap](client).Keep(wire.Only("metadata.labels", "metadata.ownerReferences.name"))
		m, err := maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error {
			m.Labels = map[string]string{"a": "b"}
			return nil
		}, rest.ChangeOptions{})
		require.NoError(t, err)
		require.Equal(t, "b", m.Labels["a"])
		_, err = maps.Change(t.Context(), changed, func(m *corev1.ConfigMap) error {
			m.OwnerReferences = []metav1.OwnerReference{{Name: "x"}}
			return nil
		}, rest.ChangeOptions{})
		require.ErrorContains(t, err, "metadata.ownerReferences may be incomplete")
		require.Equal(t, 1, *patches)
	})
}

// A field that was not read is zero in the object as read, but not on the server.
func TestChangeOfAnObjectInPartErasesNothing(t *testing.T) {
	changing(t, func(t *testing.T, client *rest.Client, srv *apiservertest.Server, _ *int) {
		job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: batchv1.CronJobSpec{Schedule: "* * * * *"}}
		_, err := srv.Create(job)
		require.NoError(t, err)
		jobs := rest.ResourceFor[*batchv1.CronJob](client)
		_, err = jobs.Keep(wire.Only("spec.suspend")).Change(t.Context(), changed, func(j *batchv1.CronJob) error { j.Spec.Suspend = new(true); return nil }, rest.ChangeOptions{})
		require.NoError(t, err)
		whole, err := jobs.Get(t.Context(), changed, metav1.GetOptions{})
		require.NoError(t, err)
		require.True(t, *whole.Spec.Suspend)
		require.Equal(t, job.Spec.Schedule, whole.Spec.Schedule)
	})
}

// Objects of any kind are written through their own resource.
func TestResourceOf(t *testing.T) {
	changing(t, func(t *testing.T, client *rest.Client, _ *apiservertest.Server, _ *int) {
		pod := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "shop", "name": "web-0"},
		}}
		made, err := rest.ResourceOf(client, pod).Apply(t.Context(), pod, metav1.ApplyOptions{FieldManager: "me"})
		require.NoError(t, err)
		require.NotEmpty(t, made.GetUID())

		for _, o := range []object.Object{
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank"}},
		} {
			made, err := rest.ResourceOf(client, o).Create(t.Context(), o, metav1.CreateOptions{})
			require.NoError(t, err)
			require.IsType(t, o, made)
			require.NotEmpty(t, made.GetUID())
		}
		_, err = rest.ResourceOf[object.Object](client, nil).Get(t.Context(), changed, metav1.GetOptions{})
		require.ErrorContains(t, err, "the object that determines the kind is nil")
		_, err = rest.ResourceOf(client, &unstructured.Unstructured{}).Get(t.Context(), changed, metav1.GetOptions{})
		require.ErrorContains(t, err, "set its apiVersion and kind")
	})
}
