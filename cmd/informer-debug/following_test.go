package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestGetFollowsItsOwnInformer(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	var stdout, stderr debugtest.Transcript
	web := object.Key{Namespace: "shop", Name: "web-1"}
	stdout.When("web-1", func() {
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "a-pod-with-a-longer-name"}, corev1.PodPending)
		debugtest.Put(t, srv, web, corev1.PodFailed)
		require.NoError(t, srv.Delete(debugtest.Pods(), web))
	})
	r := finish(t, t.Context(), []string{"get", "pods", "-n", "shop", "-w", "--output-watch-events", "-c", "5", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, `EVENT   NAMESPACE   NAME     RV    GENERATION   OWNER
ADDED   shop        cart-1   102   1            -
ADDED   shop        web-1    101   1            -
ADDED   shop        a-pod-with-a-longer-name   104   1            -
MODIFIED   shop        web-1    105   1            -
DELETED   shop        web-1    106   1            -
`, r.Out)

	r = invoke(t, "get", "pods/cart-1", "-n", "shop", "--watch", "-o", "jsonl", "--output-watch-events", "-c", "1", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.True(t, strings.HasPrefix(r.Out, `{"object":{"apiVersion":"v1"`) && strings.HasSuffix(r.Out, "\"type\":\"ADDED\"}\n"), r.Out)
	r = invoke(t, "get", "pods", "-A", "--sort-by", ".metadata.name", "-w", "-o", "custom-columns=NAME:.metadata.name", "-c", "2", server)
	require.Equal(t, "NAME\na-pod-with-a-longer-name\napi-1\n", r.Out)
	r = invoke(t, "get", "pods", "-A", "-w", "-o", "yaml", "-c", "2", server)
	require.Equal(t, 1, strings.Count(r.Out, "\n---\napiVersion: v1\n"), r.Out)
}

func TestHowFollowingEnds(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "get", "pods", "-n", "shop", "-w", "--timeout=1s", server)
	require.Equal(t, exit.CodeTimeout, r.Code)
	require.Contains(t, r.ErrOut, "informer-debug: --timeout of 1s expired\n")
	require.Len(t, r.Lines(), 3)

	var stdout, stderr debugtest.Transcript
	ctx, interrupt := context.WithCancel(t.Context())
	stdout.When("web-1", interrupt)
	r = finish(t, ctx, []string{"get", "pods", "-n", "shop", "-w", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)

	stdout, stderr = debugtest.Transcript{}, debugtest.Transcript{}
	stderr.When("no pods are in the cache", func() { debugtest.Put(t, srv, object.Key{Namespace: "shp", Name: "new"}, corev1.PodRunning) })
	r = finish(t, t.Context(), []string{"get", "pods", "-n", "shp", "--watch-only", "-o", "name", "-c", "1", server}, around(&stdout, &stderr))
	require.Equal(t, "pods/new\n", r.Out, r.ErrOut)
	r = invoke(t, "get", "pods/none", "-n", "shop", server)
	require.Contains(t, r.ErrOut, "is not in the cache of pods in namespace shop with fields metadata.name=none (")
	r = invoke(t, "get", "pods", "-n", "nowhere", server)
	require.Contains(t, r.ErrOut, "nowhere does not exist (yet): check -n")

	srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Silence{}}})
	r = invoke(t, "get", "pods", "-n", "shop", "--timeout=1s", server)
	require.Equal(t, exit.CodeTimeout, r.Code)
	require.Contains(t, r.ErrOut, "--timeout of 1s expired: pods in namespace shop: InitialWatch for ")

	for _, c := range []struct{ args, want string }{
		{"pods,nodes -w", `"pods,nodes" matches 2 informers: --watch follows one TYPE`},
		{"-w --attach=http://127.0.0.1:1", "--watch follows the objects of one TYPE: specify it"},
		{"pods -c 1", "--count requires --watch"},
		{"pods --output-watch-events", "--output-watch-events requires --watch"},
		{"pods -w -c -1", "--count must not be negative, got -1"},
		{"pods --timeout=-1s", "--timeout must not be negative, got -1s"},
		{"pods -w -o name --output-watch-events", "cannot be used with -o name"},
	} {
		srv.Faults().Clear()
		r := invoke(t, append([]string{"get", server}, strings.Fields(c.args)...)...)
		require.Equal(t, exit.CodeUsage, r.Code, c.args)
		require.Contains(t, r.ErrOut, c.want)
	}
}

func TestGetFollowsAProcess(t *testing.T) {
	srv, _ := debugtest.Cluster(t, apiservertest.Options{})
	_, _, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	web := object.Key{Namespace: "shop", Name: "web-1"}
	var stdout, stderr debugtest.Transcript
	stdout.When("web-1", func() { debugtest.Put(t, srv, web, corev1.PodFailed) })
	stdout.When("MODIFIED", func() { require.NoError(t, srv.Delete(debugtest.Pods(), web)) })
	stdout.When("DELETED", func() { debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodRunning) })
	r := finish(t, t.Context(), []string{"get", "pods in namespace shop", "-l", "app=web", "-w", "--output-watch-events", "-c", "4", "--attach=" + at.URL}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	for n, want := range []string{"EVENT", "ADDED +shop +web-1", "MODIFIED +shop +web-1", "DELETED +shop +web-1", "ADDED +shop +web-2"} {
		require.Regexp(t, "^"+want, r.Lines()[n])
	}

	stdout, stderr = debugtest.Transcript{}, debugtest.Transcript{}
	stdout.When("web-2", func() { go at.Config.Close() }) // including a stream that has not begun
	r = finish(t, t.Context(), []string{"get", "pods in namespace shop", "-w", "--attach=" + at.URL}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeUnavailable, r.Code, r.ErrOut)
}

func TestSecretsAreFollowedWithoutTheirData(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"a": []byte("hidden")}})
	require.NoError(t, err)
	r := invoke(t, "get", "secrets", "-n", "shop", "-w", "-o", "json", "-c", "1", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, `"kind": "PartialObjectMetadata"`)
	require.NotContains(t, r.Out, "aGlkZGVu")
	require.Contains(t, r.ErrOut, "contents of Secrets are not shown")
}
