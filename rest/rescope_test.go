package rest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/test/apiserver"
)

func widgetIn(namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kindWidget)
	o.SetNamespace(namespace)
	o.SetName("a")
	return o
}

// A definition that was deleted may come back with the other scope. A client that has
// used the first must not refuse for ever what the second demands.
func TestAKindThatReturnsWithAnotherScope(t *testing.T) {
	for name, namespaced := range map[string]bool{"namespaced": true, "cluster": false} {
		t.Run("to "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				widgets := apiserver.Resource{GVR: kindWidget.GroupVersion().WithResource("widgets"), Kind: kindWidget.Kind, Namespaced: !namespaced}
				srv := apiserver.New(apiserver.Options{})
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

// That a key has the wrong scope is the caller's mistake, as a rule: the server is not
// asked about it again and again.
func TestAWrongKeyDoesNotMakeDiscoveryRunAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.New(apiserver.Options{})
		defer srv.Close()
		require.NoError(t, srv.AddResource(apiserver.Resource{GVR: kindWidget.GroupVersion().WithResource("widgets"), Kind: kindWidget.Kind}))
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
