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

// A tweak takes nothing from a source: it still packs what the server sends as it comes,
// takes objects back, and says where equal parts are.
func TestTweakedSourcesOfferTheSame(t *testing.T) {
	client, err := FromConfig(&clientrest.Config{Host: "http://localhost:1"})
	require.NoError(t, err)
	pods := discovery.Mapping{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaced: true}
	pool := wire.NewPool()
	s := narrowed(rest.ResourceForMapping[object.Object](client, pods).Sharing(pool).Source(), func(*metav1.ListOptions) {})
	require.Implements(t, (*source.ListerWatcher)(nil), s)
	require.Same(t, pool, s.(source.Sharer).SharedParts())
	require.Equal(t, "pods", source.NameOf(s))
	packed := s.(source.Packer).Packing(wire.NewPacker(pool))
	require.Implements(t, (*source.Reuser)(nil), packed)
	in, err := packed.In("shop")
	require.NoError(t, err)
	require.Equal(t, "pods in namespace shop", source.NameOf(in))
	require.Implements(t, (*source.Reuser)(nil), in)
}
