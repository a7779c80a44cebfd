package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
)

func TestGetFollowsAnInformerOfItsOwn(t *testing.T) {
	srv, server := cluster(t, apiserver.Options{})
	var stdout, stderr transcript
	web := object.Key{Namespace: "shop", Name: "web-1"}
	stdout.when("web-1", func() {
		put(t, srv, object.Key{Namespace: "shop", Name: "a-pod-with-a-longer-name"}, corev1.PodPending)
		put(t, srv, web, corev1.PodFailed)
		require.NoError(t, srv.Delete(pods(), web))
	})
	r := finish(t, t.Context(), []string{"get", "pods", "-n", "shop", "-w", "--output-watch-events", "-c", "5", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.code, r.errOut)
	require.Equal(t, `EVENT   NAMESPACE   NAME     RV    GENERATION   OWNER
ADDED   shop        cart-1   102   1            -
ADDED   shop        web-1    101   1            -
ADDED   shop        a-pod-with-a-longer-name   104   1            -
MODIFIED   shop        web-1    105   1            -
DELETED   shop        web-1    106   1            -
`, r.out)

	r = invoke(t, "get", "pods/cart-1", "-n", "shop", "--watch", "-o", "jsonl", "--output-watch-events", "-c", "1", server)
	require.Equal(t, exit.CodeOK, r.code, r.errOut)
	require.True(t, strings.HasPrefix(r.out, `{"object":{"apiVersion":"v1"`) && strings.HasSuffix(r.out, "\"type\":\"ADDED\"}\n"), r.out)
	r = invoke(t, "get", "pods", "-A", "--sort-by", ".metadata.name", "-w", "-o", "custom-columns=NAME:.metadata.name", "-c", "2", server)
	require.Equal(t, "NAME\na-pod-with-a-longer-name\napi-1\n", r.out)
	r = invoke(t, "get", "pods", "-A", "-w", "-o", "yaml", "-c", "2", server)
	require.Equal(t, 1, strings.Count(r.out, "\n---\napiVersion: v1\n"), r.out)
}

func TestHowFollowingEnds(t *testing.T) {
	srv, server := cluster(t, apiserver.Options{})
	r := invoke(t, "get", "pods", "-n", "shop", "-w", "--timeout=1s", server)
	require.Equal(t, exit.CodeTimeout, r.code)
	require.Contains(t, r.errOut, "informer-debug: --timeout of 1s is over\n")
	require.Len(t, r.lines(), 3)

	var stdout, stderr transcript
	ctx, interrupt := context.WithCancel(t.Context())
	stdout.when("web-1", interrupt)
	r = finish(t, ctx, []string{"get", "pods", "-n", "shop", "-w", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.code, r.errOut)

	stdout, stderr = transcript{}, transcript{}
	stderr.when("no pods are in the cache", func() { put(t, srv, object.Key{Namespace: "shp", Name: "new"}, corev1.PodRunning) })
	r = finish(t, t.Context(), []string{"get", "pods", "-n", "shp", "--watch-only", "-o", "name", "-c", "1", server}, around(&stdout, &stderr))
	require.Equal(t, "pods/new\n", r.out, r.errOut)
	r = invoke(t, "get", "pods", "-n", "nowhere", server)
	require.Contains(t, r.errOut, "nowhere does not exist (yet): check -n")

	srv.Faults().Add(apiserver.Fault{Resource: "pods", Do: []apiserver.Action{apiserver.Silence{}}})
	r = invoke(t, "get", "pods", "-n", "shop", "--timeout=1s", server)
	require.Equal(t, exit.CodeTimeout, r.code)
	require.Contains(t, r.errOut, "--timeout of 1s is over: pods in namespace shop: InitialWatch for ")

	for _, c := range []struct{ args, want string }{
		{"pods,nodes -w", `"pods,nodes" means 2 informers: --watch follows one TYPE`},
		{"pods -c 1", "say --watch, too"},
		{"pods --output-watch-events", "say --watch, too"},
		{"pods -w -c -1", "--count is -1"},
		{"pods --timeout=-1s", "--timeout is -1s"},
		{"pods -w -o name --output-watch-events", "has no place in -o name"},
	} {
		srv.Faults().Clear()
		r := invoke(t, append([]string{"get", server}, strings.Fields(c.args)...)...)
		require.Equal(t, exit.CodeUsage, r.code, c.args)
		require.Contains(t, r.errOut, c.want)
	}
}

func TestGetFollowsAProcess(t *testing.T) {
	srv, _ := cluster(t, apiserver.Options{})
	_, _, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	web := object.Key{Namespace: "shop", Name: "web-1"}
	var stdout, stderr transcript
	stdout.when("web-1", func() { put(t, srv, web, corev1.PodFailed) })
	stdout.when("MODIFIED", func() { require.NoError(t, srv.Delete(pods(), web)) })
	stdout.when("DELETED", func() { put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodRunning) })
	r := finish(t, t.Context(), []string{"get", "pods in namespace shop", "-l", "app=web", "-w", "--output-watch-events", "-c", "4", "--attach=" + at.URL}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.code, r.errOut)
	for n, want := range []string{"EVENT", "ADDED +shop +web-1", "MODIFIED +shop +web-1", "DELETED +shop +web-1", "ADDED +shop +web-2"} {
		require.Regexp(t, "^"+want, r.lines()[n])
	}

	stdout, stderr = transcript{}, transcript{}
	stdout.when("web-2", func() { go at.Config.Close() }) // for a stream that has yet to begin, too
	r = finish(t, t.Context(), []string{"get", "pods in namespace shop", "-w", "--attach=" + at.URL}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeUnavailable, r.code, r.errOut)
}

func TestSecretsAreFollowedWithoutTheirData(t *testing.T) {
	srv, server := cluster(t, apiserver.Options{})
	_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"a": []byte("hidden")}})
	require.NoError(t, err)
	r := invoke(t, "get", "secrets", "-n", "shop", "-w", "-o", "json", "-c", "1", server)
	require.Equal(t, exit.CodeOK, r.code, r.errOut)
	require.Contains(t, r.out, `"kind": "PartialObjectMetadata"`)
	require.NotContains(t, r.out, "aGlkZGVu")
	require.Contains(t, r.errOut, "contents of Secrets are not shown")
}
