package rest

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// listOnce returns the error that ends a list.
func listOnce(r *Resource[*corev1.Pod]) error {
	for _, err := range r.List(context.Background(), metav1.ListOptions{}).Items {
		return err
	}
	return nil
}

// A definition that is deleted while it is watched leads to 404s until it is created
// again.
func TestGivenPathSurvivesA404(t *testing.T) {
	gone := true
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if gone {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), podList("a")))
	})
	c.mapper = nil
	pods := ResourceForMapping[*corev1.Pod](c, discovery.Mapping{Kind: kindPod, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaced: true})
	for range 3 {
		require.True(t, apierrors.IsNotFound(listOnce(pods)))
		_, err := pods.Watch(t.Context(), metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		_, err = pods.Create(t.Context(), pod("a"), metav1.CreateOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	}
	require.Equal(t, "pods", pods.String())
	gone = false
	require.NoError(t, listOnce(pods))
}

// The location of Pods needs no discovery, which may be down or answered by a login
// page.
func TestBuiltinKindsNeedNoDiscovery(t *testing.T) {
	var asked []string
	c, err := NewClient(&config.Config{Host: "http://x", WrapTransport: func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Path)
			return nil, context.DeadlineExceeded
		})
	}}, testScheme(t))
	require.NoError(t, err)
	require.ErrorIs(t, listOnce(ResourceFor[*corev1.Pod](c)), context.DeadlineExceeded)
	require.Equal(t, []string{"/api/v1/pods"}, asked)
}

// If the built-in location returns a 404, discovery is used after all.
func TestABuiltinKindThatIsNotServedIsLookedUp(t *testing.T) {
	c := serve(t, http.NotFound)
	c.mapper = staticMapper{}
	pods := ResourceFor[*corev1.Pod](c)
	require.True(t, apierrors.IsNotFound(listOnce(pods)))
	_, unresolved := isMappingError(listOnce(pods))
	require.True(t, unresolved, "the second time the mapper says that it is not served")
}

// A Resource that never lists still finds a kind that has moved.
func TestWritesForgetAStalePath(t *testing.T) {
	for name, write := range map[string]func(*Resource[*unstructured.Unstructured], *unstructured.Unstructured) error{
		"create": func(r *Resource[*unstructured.Unstructured], o *unstructured.Unstructured) error {
			return second(r.Create(context.Background(), o, metav1.CreateOptions{}))
		},
		"patch": func(r *Resource[*unstructured.Unstructured], o *unstructured.Unstructured) error {
			return second(r.Patch(context.Background(), object.KeyOf(o), types.MergePatchType, []byte("{}"), metav1.PatchOptions{}))
		},
		"delete": func(r *Resource[*unstructured.Unstructured], o *unstructured.Unstructured) error {
			return r.Delete(context.Background(), object.KeyOf(o), metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, http.NotFound)
			place := discovery.Mapping{Kind: kindWidget, Resource: kindWidget.GroupVersion().WithResource("widgets"), Namespaced: true}
			c.mapper = staticMapper{kindWidget: place}
			widgets := ResourceForKind[*unstructured.Unstructured](c, kindWidget)
			o := &unstructured.Unstructured{}
			o.SetNamespace("shop")
			o.SetName("a")
			require.True(t, apierrors.IsNotFound(write(widgets, o)))
			place.Resource.Resource = "widgetry"
			c.mapper.(staticMapper)[kindWidget] = place
			_ = write(widgets, o)
			require.Equal(t, "widgetry.example.com", widgets.String())
		})
	}
}

// A missing object says nothing about its resource.
func TestMissingObjectIsNotAMissingPath(t *testing.T) {
	missing := apierrors.NewNotFound(corev1.Resource("pods"), "a")
	require.False(t, placeMissing(missing, false))
	require.True(t, placeMissing(missing, true))
	require.False(t, placeMissing(nil, true))
	require.False(t, placeMissing(&source.ResolveError{}, false))
}

// The table agrees with the simulated server's discovery.
func TestBuiltinPlacesAreThoseOfTheSimulatedServer(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	c, err := NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	served, err := c.Mapper().Mappings(t.Context())
	require.NoError(t, err)
	known := 0
	for _, m := range served {
		if b, ok := discovery.Builtin(m.Kind); ok {
			known++
			require.Equal(t, m.Resource, b.Resource)
			require.Equal(t, m.Namespaced, b.Namespaced, "%v", m.Resource)
			require.Equal(t, m.Singular, b.Singular, "%v", m.Resource)
		}
	}
	require.Greater(t, known, 5)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
