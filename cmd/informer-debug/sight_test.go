package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

func TestGetRunsItsOwnInformers(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	_, err := srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"a": "b"}})
	require.NoError(t, err)
	_, err = srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"a": []byte("hidden")}})
	require.NoError(t, err)

	r := invoke(t, "get", "po,cm", "-n", "shop", "-o", "name", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, "pods/cart-1\npods/web-1\nconfigmaps/settings\n", r.Out)
	r = invoke(t, "get", "pods", "-A", "-l", "app=api", "--no-headers", server)
	require.Regexp(t, `^bank +api-1 +\d+ +1 +-\n$`, r.Out)
	r = invoke(t, "get", "cm/settings", "-n", "shop", "-o", "json", server)
	require.Contains(t, r.Out, `"a": "b"`)
	r = invoke(t, "get", "secret", "key", "-n", "shop", "-o", "json", server)
	require.Contains(t, r.ErrOut, "contents of Secrets are not shown")
	require.NotContains(t, r.Out, "hidden")
	require.Contains(t, r.Out, `"name": "key"`)

	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"get", server}, exit.CodeUsage, `specify the types to watch`},
		{[]string{"get", "pods/web-1", "-A", server}, exit.CodeUsage, "a named object is in one namespace"},
		{[]string{"get", "pods", "-A", "-n", "shop", server}, exit.CodeUsage, "cannot be used together"},
		{[]string{"get", "pods,", server}, exit.CodeUsage, `resource ""`},
		{[]string{"get", "sheep", server}, exit.CodeUnavailable, "sheep"},
		{[]string{"get", "pods/none", "-n", "shop", server}, exit.CodeUnavailable, "none"},
		{[]string{"get", "pods", "--field-selector=a=b", "--attach=http://localhost:1"}, exit.CodeUsage, "--field-selector cannot be used with --attach"},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, c.code, r.Code, "%v: %s", c.args, r.ErrOut)
		require.Contains(t, r.ErrOut, c.want, c.args)
	}
}
