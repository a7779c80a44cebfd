package envtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFingerprintFollowsSourcesAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	seen := map[string]string{}
	differs := func(after string) {
		t.Helper()
		sum, err := fingerprint(t.Context(), dir, "go.mod")
		require.NoError(t, err)
		require.Empty(t, seen[sum], "after %s", after)
		seen[sum] = after
		again, err := fingerprint(t.Context(), dir, "go.mod")
		require.NoError(t, err)
		require.Equal(t, sum, again)
	}
	write("go.mod", "module m\n")
	differs("the start")
	write("main.go", "package main\n")
	differs("a new file")
	write("main.go", "package main // changed\n")
	differs("a changed file")
	write("go.mod", "module m\n\ngo 1.26\n")
	differs("a changed go.mod")
	t.Setenv("GOFLAGS", "-tags=other")
	differs("other GOFLAGS")

	before, err := fingerprint(t.Context(), dir, "go.mod")
	require.NoError(t, err)
	write("main_test.go", "package main\n")
	write("notes.txt", "hello")
	after, err := fingerprint(t.Context(), dir, "go.mod")
	require.NoError(t, err)
	require.Equal(t, before, after, "files that are not built")

	write("other.mod", "module m\n\ngo 1.26.1\n")
	other, err := fingerprint(t.Context(), dir, "other.mod")
	require.NoError(t, err)
	require.NotEqual(t, after, other, "another go.mod file")
}

func TestVersionsAreChosenByMinor(t *testing.T) {
	src, err := sources()
	require.NoError(t, err)
	for version, want := range map[string]string{
		"": "go.mod", "1.37": filepath.Join("minors", "v1.37.mod"), "v1.37": filepath.Join("minors", "v1.37.mod"),
	} {
		got, err := modFile(src, version)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = modFile(src, "1.2")
	require.ErrorContains(t, err, "MILLRACE_KUBERNETES=1.2: there is only 1.35, 1.37")
}

func TestSourcesAreFoundFromBelow(t *testing.T) {
	want, err := filepath.Abs("../kube")
	require.NoError(t, err)
	got, err := sources()
	require.NoError(t, err)
	require.Equal(t, want, got)

	t.Chdir(t.TempDir())
	_, err = sources()
	require.ErrorContains(t, err, "inside a checkout")
}

func TestLockExcludes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), name)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lock(ctx, name)
	require.ErrorIs(t, err, context.Canceled)

	unlock()
	unlock, err = lock(t.Context(), name)
	require.NoError(t, err)
	unlock()
}

func TestConcurrentBuildsShareOneProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the real API server")
	}
	var wg sync.WaitGroup
	programs := make([]string, 4)
	errs := make([]error, len(programs))
	for i := range programs {
		wg.Go(func() { programs[i], errs[i] = Build(t.Context()) })
	}
	wg.Wait()
	for i := range programs {
		require.NoError(t, errs[i])
		require.Equal(t, programs[0], programs[i])
	}
	require.FileExists(t, programs[0])
}

func TestBrokenSourcesAreReported(t *testing.T) {
	root := t.TempDir()
	src := filepath.Join(root, "test", "kube")
	require.NoError(t, os.MkdirAll(src, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(src, "go.mod"), []byte("module m\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(src, "main.go"), []byte("package main\n\nfunc main() { nowhere() }\n"), 0o600))
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	t.Setenv("HOME", filepath.Join(root, "home"))
	t.Chdir(src)

	_, err = Build(t.Context())
	require.ErrorContains(t, err, "undefined: nowhere")
	left, err := filepath.Glob(filepath.Join(root, "cache", "millrace", "kube-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
