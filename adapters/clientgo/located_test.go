package clientgo

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// configMaps returns the source of a dynamic informer of twenty config maps.
func configMaps(t *testing.T, keep wire.Fields) *located[*unstructured.Unstructured] {
	srv := apiservertest.New(apiservertest.Options{})
	t.Cleanup(srv.Close)
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	for n := range 20 {
		_, err := srv.Create(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", n)}})
		require.NoError(t, err)
	}
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, nil)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return &located[*unstructured.Unstructured]{client: client, resource: corev1.SchemeGroupVersion.WithResource("configmaps"), keep: keep, pool: new(wire.Pool)}
}

// The documentation of source.List says: "from the end of the first page on, they are those of that
// page". The reflector needs that to request one item and the version after a watch was silent for
// two minutes. Otherwise it would read all objects, one per request.
func TestAListOfADynamicInformerSaysItsVersionAfterTheFirstPage(t *testing.T) {
	list := configMaps(t, wire.Fields{}).List(t.Context(), source.Request{ListOptions: metav1.ListOptions{Limit: 1}})
	n := 0
	for _, err := range list.Items {
		require.NoError(t, err)
		if n++; n > 1 && list.Meta.ResourceVersion != "" { // as reflector.probe does
			break
		}
	}
	require.Equal(t, 2, n, "items, in a request each")
}

// A dynamic or metadata informer that keeps only some fields reports them, and the pool of its
// parts.
func TestADynamicInformerSaysWhatItKeepsAndShares(t *testing.T) {
	from := configMaps(t, wire.Only("metadata.name"))
	require.Equal(t, "only metadata.name", from.Describe().Kept.String())
	require.False(t, from.Describe().Altered)
	require.NoError(t, from.Describe().CanNarrow("shop"))
	require.NotNil(t, from.Describe().Pool)
}

// Two filters are combined: an object remains only if both want it. The source calls them before it
// decodes.
func TestADynamicInformerFiltersBeforeItDecodes(t *testing.T) {
	from := configMaps(t, wire.Fields{})
	made := 0
	even := func(o object.Head) bool { made++; return len(o.GetName()) == 2 }
	chosen := source.Filtered(source.Filtered(from, even), func(o object.Head) bool { return o.GetName() < "c5" })
	var names []string
	for o, err := range chosen.List(t.Context(), source.Request{}).Items {
		require.NoError(t, err)
		names = append(names, o.GetName())
	}
	require.Equal(t, []string{"c0", "c1", "c2", "c3", "c4"}, names)
	require.Equal(t, 20, made)
}
