package envtest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// versionVariable is the environment variable that selects the minor version of Kubernetes to run, such as
// "1.37". If it is empty, the default version runs.
const versionVariable = "MILLRACE_KUBERNETES"

// staleAfter is how long a program built from different sources is kept without being used.
const staleAfter = 7 * 24 * time.Hour

// program is the module with the source of the API server program: the files in the repository's
// test/kube directory, in txtar format. A test checks that the two match; go test -run Embedded
// -update updates program.
//
//go:embed kube.txtar
var program string

// Build returns the path of the API server program. It builds the program unless it has already been built
// from the same sources in the same Go environment. Progress is printed to os.Stderr. Concurrent builds by
// the same user's processes run one after another.
//
// Build needs the go command and respects GOFLAGS, GOTOOLCHAIN and GOPROXY.
// MILLRACE_KUBERNETES selects one of the Kubernetes minor versions listed in the package documentation.
func Build(ctx context.Context) (string, error) {
	path, err := build(ctx, parse(program))
	if err != nil {
		return "", fmt.Errorf("envtest: build the API server: %w", err)
	}
	return path, nil
}

// source is a module's source: file contents by name.
type source map[string]string

// parse parses an archive.
func parse(archive string) source {
	files := source{}
	for _, part := range strings.Split("\n"+archive, "\n-- ")[1:] {
		name, text, _ := strings.Cut(part, " --\n")
		files[name] = strings.TrimSuffix(text, "\n") + "\n"
	}
	return files
}

func build(ctx context.Context, src source) (string, error) {
	src, err := src.of(os.Getenv(versionVariable))
	if err != nil {
		return "", err
	}
	sum, err := src.fingerprint(ctx)
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory: %w: set one of them", err)
	}
	cache := filepath.Join(base, "millrace")
	path := filepath.Join(cache, "kube-"+sum)
	if used(path) {
		return path, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("create the cache directory: %w: set XDG_CACHE_HOME to a writable directory", err)
	}
	unlock, err := lock(ctx, filepath.Join(cache, "kube.lock"))
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return "", fmt.Errorf("lock the cache directory: %w: set XDG_CACHE_HOME to a writable directory", err)
	}
	if err != nil {
		return "", err
	}
	defer unlock()
	if used(path) { // already built by the process that held the lock
		return path, nil
	}
	if err := src.compile(ctx, path); err != nil {
		return "", err
	}
	removeStale(cache)
	return path, nil
}

// used reports whether the program exists, and updates its time of last use. A read-only program, or one
// owned by another user, may be used too.
func used(program string) bool {
	now := time.Now()
	_ = os.Chtimes(program, now, now)
	info, err := os.Stat(program)
	return err == nil && info.Mode().IsRegular()
}

// of returns the source for a minor version, with only that version's go.mod and go.sum. An empty
// version means the one in go.mod.
func (src source) of(version string) (source, error) {
	mod, sum := "go.mod", "go.sum"
	if v := strings.TrimPrefix(version, "v"); version != "" && v != src.minor() {
		name := "minors/v" + v
		mod, sum = name+".mod", name+".sum"
	}
	if _, ok := src[mod]; !ok {
		return nil, fmt.Errorf("%s=%s: there is only %s", versionVariable, version, strings.Join(src.minors(), ", "))
	}
	chosen := source{}
	for name, text := range src {
		switch {
		case name == mod:
			chosen["go.mod"] = text
		case name == sum:
			chosen["go.sum"] = text
		case path.Ext(name) == ".go":
			chosen[name] = text
		}
	}
	return chosen, nil
}

// minors returns all available versions, including the one in go.mod.
func (src source) minors() []string {
	all := []string{src.minor()}
	for name := range src {
		if path.Dir(name) == "minors" && path.Ext(name) == ".mod" {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(path.Base(name), "v"), ".mod"))
		}
	}
	slices.Sort(all)
	return all
}

// fingerprint hashes everything that the build result depends on: the module's files, including the
// versions in its go.mod, and the Go environment.
func (src source) fingerprint(ctx context.Context) (string, error) {
	h := sha256.New()
	env := goCommand(ctx, "", "env", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS", "GOEXPERIMENT", "CGO_ENABLED")
	out, err := env.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%v: %w", env, withStderr(err))
	}
	h.Write(out)
	for _, name := range slices.Sorted(maps.Keys(src)) {
		fmt.Fprintf(h, "%s %d\n%s", name, len(src[name]), src[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// write writes the files to a directory.
func (src source) write(dir string) error {
	for name, text := range src {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// withStderr adds a command's standard error to its exit status.
func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// compile builds the program as a temporary file and then renames it, so the program is never
// incomplete.
func (src source) compile(ctx context.Context, path string) error {
	dir, err := os.MkdirTemp("", "millrace-kube-src-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := src.write(dir); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "envtest: building kube-apiserver; the first build takes minutes, and go test times out after ten: see -timeout")
	begin := time.Now()
	tmp := path + ".tmp" // safe, since we hold the lock
	cmd := goCommand(ctx, dir, "build", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w", "-o", tmp, ".")
	var said strings.Builder
	cmd.Stdout = os.Stderr
	cmd.Stderr = &teeWriter{&said}
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return fmt.Errorf("%v: timed out: %w; the compiled packages are cached, so the next build takes less time", cmd, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%v: %w\n%s", cmd, err, said.String())
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "envtest: built %s in %v\n", path, time.Since(begin).Round(time.Second))
	return nil
}

// teeWriter passes on the go command's messages immediately, in particular "downloading", and keeps them
// for error messages.
type teeWriter struct{ kept *strings.Builder }

func (w *teeWriter) Write(p []byte) (int, error) {
	w.kept.Write(p)
	return os.Stderr.Write(p)
}

// interruptDelay is the time that the go command has to exit after an interrupt. The compilers that it
// has started keep running and keep its output open.
const interruptDelay = 3 * time.Second

// goCommand runs the go command in the program's module, outside any workspace, since a workspace would
// change its dependency versions.
func goCommand(ctx context.Context, src string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes its temporary files
	cmd.WaitDelay = interruptDelay
	return cmd
}

// removeStale removes programs that were built from other sources and have not been used for a while.
// It ignores errors.
func removeStale(cache string) {
	old, err := filepath.Glob(filepath.Join(cache, "kube-*"))
	if err != nil {
		return
	}
	for _, name := range old {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < staleAfter {
			continue
		}
		_ = os.Remove(name)
	}
}
