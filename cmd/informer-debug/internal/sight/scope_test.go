package sight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

func TestScopeOfANameOfAnInformer(t *testing.T) {
	s, err := scopeOf("deployments.apps in namespace shop with labels app in (a,b),tier=x with fields metadata.name!=y")
	require.NoError(t, err)
	require.Equal(t, Scope{Resource: object.GVR{Group: "apps", Resource: "deployments"}, Namespace: "shop", labels: "app in (a,b),tier=x", fields: "metadata.name!=y"}, s)
	require.Equal(t, "metadata.name!=y,metadata.name=web", s.List("web").FieldSelector)
	for _, name := range []string{"my pods", "pods in no namespace", "", "*main.fake[*k8s.io/api/core/v1.Pod]"} {
		_, err := scopeOf(name)
		require.Error(t, err, name)
	}
}
