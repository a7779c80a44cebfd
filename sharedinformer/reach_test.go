package sharedinformer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// An informer whose source is limited to one namespace cannot be given another one.
func TestANamespaceThatTheSourceDoesNotReach(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	_, err = srv.Create(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}})
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, scheme)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	i := sharedinformer.New[*corev1.ConfigMap](rest.ResourceFor[*corev1.ConfigMap](client).Namespace("shop").Source(), sharedinformer.Options{})
	err = i.SetNamespaces([]string{"default"})
	require.ErrorContains(t, err, "configmaps in namespace shop does not reach namespace default: use a source for all namespaces")
	require.False(t, i.Watches("default"))
	i = sharedinformer.New[*corev1.ConfigMap](rest.ResourceFor[*corev1.ConfigMap](client).Namespace("shop").Source(), sharedinformer.Options{
		Namespaces: []string{"default"}, SyncPatience: time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := i.Start(ctx)
	require.NoError(t, err)
	require.ErrorContains(t, i.WaitForSync(ctx), "configmaps in namespace shop does not reach namespace default")
	require.Zero(t, i.Cache().Len())
	cancel()
	require.NoError(t, wait())
}
