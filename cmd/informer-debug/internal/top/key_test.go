package top

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

func TestKeysOfRequests(t *testing.T) {
	for text, want := range map[string]object.Key{
		"shop/p":         {Namespace: "shop", Name: "p"},
		"east:shop/p":    {Namespace: "shop", Name: "p"},
		"system:admin":   {Name: "system:admin"},
		"bank/system:ro": {Namespace: "bank", Name: "system:ro"},
	} {
		require.Equal(t, want, parseKey(text), text)
	}
	require.Equal(t, "pods (*v1.Pod) of cluster west", fullName(debug.Which{Informer: "pods", Type: "*v1.Pod", Cluster: "west"}))
	require.Equal(t, "pods", fullName(debug.Which{Informer: "pods", Own: true}))
}
