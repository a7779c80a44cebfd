// Package readme holds the README to what it shows.
package readme

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/test/apiserver"
)

const example = "../../examples/informer"

// The first Go block of the README is the program in examples/informer, which
// the build compiles.
func TestTheReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found, "README.md has no Go block")
	block, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	program, err := os.ReadFile(filepath.Join(example, "main.go"))
	require.NoError(t, err)
	require.Equal(t, string(program), block)
}

func TestTheExampleRuns(t *testing.T) {
	srv := apiserver.New(apiserver.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiserver.ListenOptions{})
	require.NoError(t, err)
	_, err = srv.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	})
	require.NoError(t, err)

	dir := t.TempDir()
	program := filepath.Join(dir, "informer")
	build := exec.Command("go", "build", "-o", program, example)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	kubeconfig := filepath.Join(dir, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "`+endpoint.URL+`"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`), 0o600))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, program)
	run.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	stdout, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	want := "on node-1: web-0\n"
	got := ""
	for buf := make([]byte, 1024); !strings.Contains(got, want); {
		n, err := stdout.Read(buf)
		got += string(buf[:n])
		if err != nil {
			_ = run.Wait() // and with it for all of stderr
			t.Fatalf("%v; stdout %q, stderr %q", err, got, stderr.String())
		}
	}
	require.Contains(t, got, "+ shop web-0\n")
	require.NoError(t, run.Process.Signal(os.Interrupt))
	require.NoError(t, run.Wait(), stderr.String())
}

// The README promises it.
func TestTheMemcachedControllerIsBelow100Lines(t *testing.T) {
	source, err := os.ReadFile("../../examples/memcached/controller.go")
	require.NoError(t, err)
	require.Less(t, bytes.Count(source, []byte("\n")), 100)
}
