package rest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
)

func widgetIn(namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kindWidget)
	o.SetNamespace(namespace)
	o.SetName("a")
	return o
}

// A deleted definition may return with another scope. A client that knows the old scope
// must not reject the new one forever.
func TestAKindThatReturnsWithAnotherScope(t *testing.T) {
	for name, namespaced := range map[string]bool{"namespaced": true, "cluster": false} {
		t.Run("to "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				widgets := apiservertest.Resource{GVR: kindWidget.GroupVersion().WithResource("widgets"), Kind: kindWidget.Kind, Namespaced: !namespaced}
				srv := apiservertest.New(apiservertest.Options{})
				defer srv.Close()
				require.NoError(t, srv.AddResource(widgets))
				endpoint, err := srv.Pipe()
				require.NoError(t, err)
				c, err := NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, nil)
				require.NoError(t, err)
				defer c.CloseIdleConnections()

				before, after := "default", ""
				if namespaced {
					before, after = after, before
				}
				writer, reader := ResourceForKind[*unstructured.Unstructured](c, kindWidget), ResourceForKind[*unstructured.Unstructured](c, kindWidget)
				_, err = writer.Create(ctx, widgetIn(before), metav1.CreateOptions{})
				require.NoError(t, err)
				m, err := reader.Mapping(ctx)
				require.NoError(t, err)
				require.Equal(t, !namespaced, m.Namespaced)

				require.NoError(t, srv.RemoveResource(widgets.GVR))
				time.Sleep(doubtEvery)
				widgets.Namespaced = namespaced
				require.NoError(t, srv.AddResource(widgets))
				_, err = writer.Create(ctx, widgetIn(after), metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = writer.Get(ctx, object.Key{Namespace: after, Name: "a"}, metav1.GetOptions{})
				require.NoError(t, err)
				m, err = reader.Mapping(ctx)
				require.NoError(t, err)
				require.Equal(t, namespaced, m.Namespaced, "who asks nothing hears of it too")
			})
		})
	}
}

// A key with the wrong scope is usually the caller's mistake: it must not make the
// client query the server again and again.
func TestAWrongKeyDoesNotMakeDiscoveryRunAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		require.NoError(t, srv.AddResource(apiservertest.Resource{GVR: kindWidget.GroupVersion().WithResource("widgets"), Kind: kindWidget.Kind}))
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		c, err := NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, nil)
		require.NoError(t, err)
		defer c.CloseIdleConnections()
		widgets := ResourceForKind[*unstructured.Unstructured](c, kindWidget)
		for range 100 {
			_, err := widgets.Get(context.Background(), object.Key{Namespace: "shop", Name: "a"}, metav1.GetOptions{})
			require.ErrorIs(t, err, source.ErrNotNamespaced)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, srv.Stats().Requests("", ""), 2*5, "of two documents each")
	})
}

// returned calls test with a kind that the client knows as cluster-scoped and that was
// recreated as namespaced, long enough ago for another lookup.
func returned(t *testing.T, test func(*testing.T, *Resource[*unstructured.Unstructured], *apiservertest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		kind := apiservertest.Resource{GVR: kindWidget.GroupVersion().WithResource("widgets"), Kind: kindWidget.Kind}
		require.NoError(t, srv.AddResource(kind))
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		c, err := NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, nil)
		require.NoError(t, err)
		defer c.CloseIdleConnections()
		widgets := ResourceForKind[*unstructured.Unstructured](c, kindWidget)
		_, err = widgets.Mapping(t.Context())
		require.NoError(t, err)
		require.NoError(t, srv.RemoveResource(kind.GVR))
		kind.Namespaced = true
		require.NoError(t, srv.AddResource(kind))
		time.Sleep(doubtEvery)
		test(t, widgets, srv)
	})
}

// When one caller is refused, another one that runs the lookup may be canceled, for
// example if both read different namespaces for one informer.
func TestARefusalWaitsForTheLookUpThatRuns(t *testing.T) {
	returned(t, func(t *testing.T, widgets *Resource[*unstructured.Unstructured], srv *apiservertest.Server) {
		srv.Faults().Add(apiservertest.Fault{Do: []apiservertest.Action{apiservertest.Delay{For: time.Second}}})
		read := func(ctx context.Context, namespace string) <-chan error {
			outcome := make(chan error, 1)
			go func() {
				_, err := widgets.Get(ctx, object.Key{Namespace: namespace, Name: "a"}, metav1.GetOptions{})
				outcome <- err
			}()
			synctest.Wait()
			return outcome
		}
		first, giveUp := context.WithCancel(t.Context())
		bank, shop := read(first, "bank"), read(t.Context(), "shop")
		select {
		case err := <-shop:
			t.Fatal("refused while it is looked up whether that is right:", err)
		default:
		}
		giveUp()
		require.ErrorIs(t, <-bank, source.ErrNotNamespaced)
		require.True(t, apierrors.IsNotFound(<-shop), "it asks in the place of who gave up")
	})
}

// A lookup whose caller gave up does not count. The next one may start immediately.
func TestAbandonedLookUpDoesNotCount(t *testing.T) {
	returned(t, func(t *testing.T, widgets *Resource[*unstructured.Unstructured], srv *apiservertest.Server) {
		srv.Faults().Add(apiservertest.Fault{Count: 1, Do: []apiservertest.Action{apiservertest.Delay{For: time.Second}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := widgets.Get(ctx, object.Key{Namespace: "shop", Name: "a"}, metav1.GetOptions{})
		require.ErrorIs(t, err, source.ErrNotNamespaced)
		_, err = widgets.Get(t.Context(), object.Key{Namespace: "shop", Name: "a"}, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	})
}
