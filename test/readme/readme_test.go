// Package readme checks that the code in the documents compiles.
package readme

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
)

const example = "../../examples/informer"

// The first block of Go in the README equals the program in examples/informer.
func TestTheReadmeShowsTheExample(t *testing.T) {
	blocks := goBlocks(t, "README.md")
	require.NotEmpty(t, blocks)
	program, err := os.ReadFile(filepath.Join(example, "main.go"))
	require.NoError(t, err)
	require.Equal(t, string(program), blocks[0])
}

// All other blocks, and those of the cookbook and of the pages on testing and porting, are in
// cookbook_test.go and recipes_test.go.
func TestTheRecipesCompile(t *testing.T) {
	compiled := ""
	for _, file := range []string{"cookbook_test.go", "recipes_test.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		compiled += statements(string(source))
	}
	blocks := append(goBlocks(t, "docs/cookbook.md"), goBlocks(t, "README.md")[1:]...)
	blocks = append(blocks, goBlocks(t, "docs/testing.md")...)
	blocks = append(blocks, goBlocks(t, "docs/porting.md")[1:]...) // the first one uses controller-runtime; its adapter tests it
	require.Greater(t, len(blocks), 10)
	for _, block := range blocks {
		if !strings.Contains(compiled, statements(block)) {
			t.Errorf("no file has this block line for line:\n%s", block)
		}
	}
}

// The lines that the cookbook adds to the memcached example are in the example.
func TestExampleShardsAsInTheCookbook(t *testing.T) {
	cookbook, err := os.ReadFile(filepath.Join(root, "docs/cookbook.md"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(cookbook), "```diff\n")
	require.True(t, found)
	block, _, _ := strings.Cut(after, "```")
	source := ""
	for _, file := range []string{"main.go", "controller.go"} {
		text, err := os.ReadFile(filepath.Join(root, "examples/memcached", file))
		require.NoError(t, err)
		source += string(text)
	}
	added := 0
	for line := range strings.Lines(block) {
		if plus, is := strings.CutPrefix(line, "+"); is {
			added++
			require.Contains(t, source, "\n"+plus)
		}
		if minus, is := strings.CutPrefix(line, "-"); is {
			require.NotContains(t, source, "\n"+minus)
		}
	}
	require.Equal(t, 2, added)
}

// goBlocks returns the blocks of Go in a document.
func goBlocks(t *testing.T, document string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	require.NoError(t, err)
	for _, after := range strings.Split(string(text), "```go\n")[1:] {
		block, _, ended := strings.Cut(after, "```")
		require.True(t, ended, document)
		blocks = append(blocks, block)
	}
	return blocks
}

// statements returns lines of Go for comparison: without indentation, blank lines, and lines that
// only satisfy the compiler.
func statements(source string) string {
	var lines []string
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if line != "" && line != "return err" && !strings.HasPrefix(line, "_ = ") && !strings.HasPrefix(line, "_, _") {
			lines = append(lines, line)
		}
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// raceDetector reports whether this test was built with the race detector. With the same setting, the packages
// that the example imports need not be compiled again.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestTheExampleRuns(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	_, err = srv.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	})
	require.NoError(t, err)

	dir := t.TempDir()
	program := filepath.Join(dir, "informer")
	out, err := exec.Command("go", "build", "-race="+strconv.FormatBool(raceDetector()), "-o", program, example).CombinedOutput()
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
			_ = run.Wait() // and for the rest of stderr
			t.Fatalf("%v; stdout %q, stderr %q", err, got, stderr.String())
		}
	}
	require.Contains(t, got, "add shop web-0 ")
	require.NoError(t, run.Process.Signal(os.Interrupt))
	require.NoError(t, run.Wait(), stderr.String())
}

// The README says so.
func TestTheMemcachedControllerIsBelow150Lines(t *testing.T) {
	source, err := os.ReadFile("../../examples/memcached/controller.go")
	require.NoError(t, err)
	require.Less(t, bytes.Count(source, []byte("\n")), 150)
}
