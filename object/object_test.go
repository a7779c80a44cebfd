package object

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestParseKey(t *testing.T) {
	for in, want := range map[string]Key{
		"shop/web-0": {Namespace: "shop", Name: "web-0"},
		"node-1":     {Name: "node-1"},
		"/node-1":    {Name: "node-1"},
	} {
		got, err := ParseKey(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
		again, err := ParseKey(FormatKey(got))
		require.NoError(t, err)
		require.Equal(t, got, again, "FormatKey is the inverse")
	}
	for _, in := range []string{"", "shop/", "/", "a/b/c", "a//b"} {
		_, err := ParseKey(in)
		require.ErrorContains(t, err, `want "namespace/name"`, in)
	}
}

func TestIsBuiltin(t *testing.T) {
	require.True(t, IsBuiltin(reflect.TypeFor[corev1.Pod]()))
	for _, other := range []reflect.Type{reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[unstructured.Unstructured](), reflect.TypeFor[metav1.PartialObjectMetadata](), reflect.TypeFor[Key]()} {
		require.False(t, IsBuiltin(other), "%v", other)
	}
}

func TestParseResourceArg(t *testing.T) {
	for in, want := range map[string]GVR{
		"pods":                          {Resource: "pods"},
		"po":                            {Resource: "po"},
		"deployments.apps":              {Resource: "deployments", Group: "apps"},
		"deployments.v1.apps":           {Resource: "deployments", Version: "v1", Group: "apps"},
		"pods.v1":                       {Resource: "pods", Version: "v1"},
		"pods.v1.":                      {Resource: "pods", Version: "v1"},
		"pods.v1..":                     {},
		"widgets.v2beta1.example.com":   {Resource: "widgets", Version: "v2beta1", Group: "example.com"},
		"widgets.example.com":           {Resource: "widgets", Group: "example.com"},
		"widgets.v1.example.com":        {Resource: "widgets", Version: "v1", Group: "example.com"},
		"leases.v1.coordination.k8s.io": {Resource: "leases", Version: "v1", Group: "coordination.k8s.io"},
		"things.vault.example.com":      {Resource: "things", Group: "vault.example.com"},
		"things.v1alpha.example.com":    {Resource: "things", Group: "v1alpha.example.com"},
		"things.v1gamma1.example.com":   {Resource: "things", Group: "v1gamma1.example.com"},
		"":                              {},
		"a/b":                           {},
		".apps":                         {},
	} {
		got, err := ParseResourceArg(in)
		if want.Empty() {
			require.ErrorContains(t, err, "TYPE[.VERSION][.GROUP]", in)
			continue
		}
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

func TestReachedRV(t *testing.T) {
	for _, c := range []struct {
		have, want string
		reached    bool
	}{
		{"10", "9", true}, {"9", "10", false}, {"10", "10", true}, {"odd", "odd", true},
		{"odd", "9", false}, {"9", "odd", false}, {"", "9", false}, {"12345678901234567890123", "9", true},
	} {
		require.Equal(t, c.reached, ReachedRV(c.have, c.want), "%s, %s", c.have, c.want)
	}
}

func TestResourceName(t *testing.T) {
	require.Equal(t, "pods", ResourceName(GVR{Version: "v1", Resource: "pods"}))
	require.Equal(t, "deployments.apps", ResourceName(GVR{Group: "apps", Version: "v1", Resource: "deployments"}))
}
