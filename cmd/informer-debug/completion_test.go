package main

import (
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// completed returns the completions without the directive.
func completed(t *testing.T, args ...string) string {
	t.Helper()
	r := invoke(t, append([]string{"__complete"}, args...)...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	lines := r.Lines()
	require.True(t, strings.HasPrefix(lines[len(lines)-1], ":"), r.Out)
	return strings.Join(lines[:len(lines)-1], " ")
}

func TestCompletion(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	for _, name := range []string{"shop", "bank"} {
		_, err := srv.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		require.NoError(t, err)
	}
	process := httptest.NewServer(program(t, false))
	defer process.Close()
	at := "--attach=" + process.URL
	recorded := "--replay=" + recordPods(t, server)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{"contexts":[{"name":"prod"},{"name":"dev"},{"name":"a\u001b[2J"}],"clusters":[{"name":"c"}],"users":[{"name":"u"}]}`), 0o600))

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "-n", "shop", server, "pods/"}, "pods/cart-1 pods/web-1"},
		{[]string{"get", "-n", "shop", server, "po", "w"}, "cart-1 web-1"},
		{[]string{"get", "-n", "shop", server, "po/web-1", ""}, ""},
		{[]string{"why", "-n", "bank", server, "pods/"}, "pods/api-1"},
		{[]string{"watch", "-n", "bank", server, "pods/"}, "pods/api-1"},
		{[]string{"wait", "-n", "shop", server, "pods/cart-1", "po/"}, "po/cart-1 po/web-1"},
		{[]string{"watch", server, "pods", ""}, ""},
		{[]string{"watch", server, "nodes/"}, ""},
		{[]string{"get", server, "none/"}, ""},
		{[]string{"get", server, "-n", ""}, "bank shop"},
		{[]string{"record", server, "--namespace", "s"}, "bank shop"},
		{[]string{"get", at, ""}, "pods"},
		{[]string{"get", at, "pods/"}, "pods/bad pods/good"},
		{[]string{"why", at, "-n", "shop", "pods/g"}, "pods/good"},
		{[]string{"why", at, server, "-n", ""}, ""}, // the process's informers have all namespaces
		{[]string{"why", recorded, server, ""}, "pods"},
		{[]string{"wait", recorded, server, "pods/x", "po"}, "pods"},
		{[]string{"churn", recorded, server, "-n", ""}, "shop"},
		{[]string{"get", recorded, server, "pods/"}, ""},
		{[]string{"watch", "--kubeconfig", kubeconfig, "--context", ""}, "dev prod"},
		{[]string{"check", "--kubeconfig", kubeconfig, "--cluster", ""}, "c"},
		{[]string{"top", "--kubeconfig", kubeconfig, "--user", ""}, "u"},
		{[]string{"wait", at, "--for", ""}, "synced rv= create delete condition= jsonpath= lag< queue="},
		{[]string{"wait", at, "--for=queue=0", ""}, "keeper"},
		{[]string{"wait", "--for=queue=0", ""}, ""},
		{[]string{"why", at, "--controller", ""}, "keeper"},
		{[]string{"doctor", "--output", ""}, "json"},
		{[]string{"get", "--output", "j"}, "wide json jsonl yaml name jsonpath= custom-columns= go-template="},
	} {
		require.Equal(t, c.want, completed(t, c.args...), c.args)
	}
	types := strings.Fields(completed(t, "get", server, "po,dep"))
	require.Contains(t, types, "po,deployments.apps")
	require.Contains(t, strings.Fields(completed(t, "wait", server, "pods/x", "")), "pods")
}

// recordPods records the pods of the shop, and returns the file.
func recordPods(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bug.recording")
	r := invoke(t, "record", "pods", "-n", "shop", "-o", path, "--duration", "500ms", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	return path
}

// If a process or cluster cannot be asked, there are no completions, no messages and no hang.
func TestCompletionIsSilent(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	srv.Faults().Add(apiservertest.Fault{Do: []apiservertest.Action{apiservertest.Silence{}}})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections and does not answer
	require.NoError(t, err)
	defer silent.Close()
	garbage := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("\tnot: [yaml"), 0o600))
	for _, args := range [][]string{
		{"get", server, ""},
		{"get", server, "--replay", garbage, ""},
		{"get", "--replay", garbage + ".not", "-n", ""},
		{"get", "--attach=http://" + silent.Addr().String(), ""},
		{"get", "--attach=http://127.0.0.1:1", "pods/"},
		{"get", "--attach=nowhere", ""},
		{"watch", ""}, {"watch", "pods/"}, {"watch", "-n", ""}, {"watch", "--context", ""},
		{"watch", "--kubeconfig", garbage, "--context", ""},
		{"watch", "--kubeconfig", garbage, ""},
		{"watch", "--kubeconfig", t.TempDir(), "--user", ""},
	} {
		r := invoke(t, append([]string{"__complete"}, args...)...)
		require.Regexp(t, `^:\d+\n$`, r.Out, args)
		require.Regexp(t, `^Completion ended with directive: \S+\n$`, strings.ReplaceAll(r.ErrOut, ", ", ","), args)
	}
}
