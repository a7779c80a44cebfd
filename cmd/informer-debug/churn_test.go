package main

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestChurnFailsEarly(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	page := httptest.NewServer(debugtest.LoginPage{})
	defer page.Close()
	forbidden, refusing := debugtest.Cluster(t, apiservertest.Options{})
	forbidden.SetAuthorizer(apiservertest.Deny("", "pods", "list"))
	i, _, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed)
	require.NoError(t, i.WaitForRV(t.Context(), srv.RV()))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"churn", server}, exit.CodeUsage, "specify the types to examine"},
		{[]string{"churn", "pods", "--for=0s", server}, exit.CodeUsage, "--for must be positive, got 0s"},
		{[]string{"churn", "pods", "--limit=-1", server}, exit.CodeUsage, "--limit must not be negative, got -1"},
		{[]string{"churn", "pods", "--keep=", server}, exit.CodeUsage, "--keep is empty"},
		{[]string{"churn", "pods", "--keep=spec", "--attach=" + at.URL}, exit.CodeUsage, "cannot be used with --attach"},
		{[]string{"churn", "sheep", server}, exit.CodeUnavailable, "sheep"},
		{[]string{"churn", "pods", "-A", refusing}, exit.CodeUnavailable, `request the verbs "list" and "watch"`},
		{[]string{"churn", "pods", "--server=" + page.URL}, exit.CodeUnavailable, "login"},
		{[]string{"churn", "--attach=http://127.0.0.1:1"}, exit.CodeUnavailable, "127.0.0.1:1"},
		{[]string{"churn", "pods", "--attach=" + at.URL}, exit.CodeOK, "but no fields"},
	} {
		r := invoke(t, c.args...)
		assert.Equal(t, c.code, r.Code, "%v: %s%s", c.args, r.Out, r.ErrOut)
		assert.Contains(t, r.ErrOut, c.want, c.args)
	}
	r := invoke(t, "churn", "pods", "-o", "json", "--attach="+at.URL)
	require.Contains(t, r.Out, `"name": "web-1"`)
	require.Contains(t, r.Out, "but no fields")
}
