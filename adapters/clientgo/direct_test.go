package clientgo

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrest "k8s.io/client-go/rest"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// A tweak keeps the capabilities of a source, and changes only the options of a request.
func TestTweakedSourcesOfferTheSame(t *testing.T) {
	client, err := FromConfig(&clientrest.Config{Host: "http://localhost:1"})
	require.NoError(t, err)
	pods := discovery.Mapping{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaced: true}
	from := rest.ResourceForMapping[object.Object](client, pods).Sharing(wire.NewPool()).Source()
	tweaked := narrowed(from, func(opts *metav1.ListOptions) { opts.LabelSelector = "app" })
	whole, d := from.Describe(), tweaked.Describe()
	of, _ := d.Origin()
	require.Equal(t, " labels app", of.Scope)
	whole.Origin, d.Origin = nil, nil
	require.Equal(t, whole, d)
	require.Equal(t, tweaked, source.Complete(tweaked), "it does all of a request")
}
