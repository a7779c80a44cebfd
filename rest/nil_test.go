package rest

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
)

func TestNilArgumentsAreNamed(t *testing.T) {
	const nilClient = "rest: the client is nil: create one with rest.NewClient"
	require.PanicsWithValue(t, nilClient, func() { ResourceFor[*corev1.Pod](nil) })
	require.PanicsWithValue(t, nilClient, func() { ResourceForKind[*corev1.Pod](nil, kindPod) })
	require.PanicsWithValue(t, nilClient, func() { ResourceForMapping[*corev1.Pod](nil, discovery.Mapping{}) })
	_, err := NewClient(nil, nil)
	require.ErrorContains(t, err, "use config.Load")
	_, err = NewClient(&config.Config{}, nil)
	require.ErrorContains(t, err, "no server is set")
}
