package envtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what is embedded")

// The embedded sources equal those of the repository.
func TestEmbeddedSourcesMatchTheRepository(t *testing.T) {
	const kube = "../test/kube"
	if _, err := os.Stat(kube); err != nil {
		t.Skip("not in the repository")
	}
	var names []string
	for _, pattern := range []string{"*.go", "go.mod", "go.sum", "minors/*.mod", "minors/*.sum"} {
		found, err := filepath.Glob(filepath.Join(kube, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		names = append(names, found...)
	}
	slices.Sort(names)
	var archive strings.Builder
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		below, err := filepath.Rel(kube, name)
		require.NoError(t, err)
		fmt.Fprintf(&archive, "-- %s --\n%s", filepath.ToSlash(below), text)
		require.Equal(t, string(text), parse(archive.String())[filepath.ToSlash(below)], "the archive cannot hold it")
	}
	if *update {
		require.NoError(t, os.WriteFile("kube.txtar", []byte(archive.String()), 0o644))
	} else if archive.String() != program {
		t.Error("test/kube has changed: go -C envtest test -run Embedded -update .")
	}
}

func TestFingerprintFollowsSourcesAndEnvironment(t *testing.T) {
	src := source{"go.mod": "module m\n"}
	seen := map[string]string{}
	differs := func(after string) {
		t.Helper()
		sum, err := src.fingerprint(t.Context())
		require.NoError(t, err)
		require.Empty(t, seen[sum], "after %s", after)
		seen[sum] = after
		again, err := src.fingerprint(t.Context())
		require.NoError(t, err)
		require.Equal(t, sum, again)
	}
	differs("the start")
	src["main.go"] = "package main\n"
	differs("a new file")
	src["main.go"] = "package main // changed\n"
	differs("a changed file")
	src["go.mod"] = "module m\n\ngo 1.26\n"
	differs("a changed go.mod")
	t.Setenv("GOFLAGS", "-tags=other")
	differs("other GOFLAGS")
}

func TestVersionsAreChosenByMinor(t *testing.T) {
	all := parse(program)
	for version, want := range map[string]string{"": "go.mod", all.minor(): "go.mod", "1.37": "minors/v1.37.mod", "v1.35": "minors/v1.35.mod"} {
		got, err := all.of(version)
		require.NoError(t, err)
		require.Equal(t, all[want], got["go.mod"])
		require.Equal(t, all[strings.TrimSuffix(want, "mod")+"sum"], got["go.sum"])
		require.NotEmpty(t, got["main.go"])
		require.NotContains(t, got, "minors/v1.37.mod")
	}
	_, err := all.of("1.2")
	require.ErrorContains(t, err, "MILLRACE_KUBERNETES=1.2: there is only 1.35, 1.36, 1.37")
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
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	t.Setenv("HOME", filepath.Join(root, "home"))

	_, err = build(t.Context(), source{"go.mod": "module m\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() { nowhere() }\n"})
	require.ErrorContains(t, err, "undefined: nowhere")
	left, err := filepath.Glob(filepath.Join(root, "cache", "millrace", "kube-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A build that takes longer than its context fails with a message, and does not wait
// for running compilers.
func TestABuildEndsWithItsContext(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the go command of this test is a shell script")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho compiling >&2\nsleep 60 &\necho $! > " + filepath.Join(dir, "compiler") + "\nwait\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- source{"go.mod": "module m\n"}.compile(ctx, filepath.Join(dir, "program")) }()
	var compiler int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "compiler"))
		if err != nil {
			return false
		}
		n, err := fmt.Sscan(string(text), &compiler)
		return n == 1 && err == nil
	}, 2*time.Minute, 10*time.Millisecond)
	t.Cleanup(func() {
		if p, err := os.FindProcess(compiler); err == nil {
			_ = p.Kill()
		}
	})
	cancel(enough)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, enough)
		require.ErrorContains(t, err, "the compiled packages are cached")
		require.NotContains(t, err.Error(), "signal")
	case <-time.After(50 * time.Second): // before the compiler has ended
		t.Fatal("it waits for what the go command has started")
	}
}
