package rest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// Several goroutines may create objects from one template, and update a cached object.
func TestCreateDoesNotModifyTheObject(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			SizeLimit: resource.NewQuantity(1<<30, resource.BinarySI),
		}}}},
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
	before := o.DeepCopy()
	_, err = rest.ResourceFor[*corev1.Pod](client).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, before, o)
}

// A shallow copy of a cached object shares its volumes with the cache.
func TestL16_UpdateOfAShallowCopyDoesNotModifyTheCache(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	limit := resource.MustParse("1536Mi")
	_, err = srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.PodSpec{
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}},
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}})
	require.NoError(t, err)
	pods := rest.ResourceFor[*corev1.Pod](client)
	cached, err := pods.Get(t.Context(), object.Key{Namespace: "shop", Name: "a"}, metav1.GetOptions{})
	require.NoError(t, err)
	before, next := cached.DeepCopy(), *cached
	next.Labels = map[string]string{"a": "b"}
	_, err = pods.Update(t.Context(), &next, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, before, cached)
}
