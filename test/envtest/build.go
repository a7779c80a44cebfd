package envtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// versionVariable is the environment variable that chooses the minor version of
// Kubernetes, such as "1.37". Unset or empty: that of test/kube/go.mod.
const versionVariable = "MILLRACE_KUBERNETES"

// staleAfter is how long a program of other sources is kept after its last use.
const staleAfter = 7 * 24 * time.Hour

// Build returns the path of the API server's program and builds it if there is
// none of these sources and this Go environment. Progress goes to os.Stderr.
// The calls of all processes of a user build one after the other.
//
// The sources are found from the working directory upwards, so that it works
// from every package of the repository. It needs the go command; GOFLAGS,
// GOTOOLCHAIN and GOPROXY are respected. MILLRACE_KUBERNETES chooses the minor
// version of Kubernetes, of those in test/kube/minors.
func Build(ctx context.Context) (string, error) {
	program, err := build(ctx)
	if err != nil {
		return "", fmt.Errorf("envtest: build the API server: %w", err)
	}
	return program, nil
}

func build(ctx context.Context) (string, error) {
	src, err := sources()
	if err != nil {
		return "", err
	}
	mod, err := modFile(src, os.Getenv(versionVariable))
	if err != nil {
		return "", err
	}
	sum, err := fingerprint(ctx, src, mod)
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(base, "millrace")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	program := filepath.Join(cache, "kube-"+sum)
	if used(program) {
		return program, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, "kube.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if used(program) { // built by the process that had the lock
		return program, nil
	}
	if err := compile(ctx, src, mod, program); err != nil {
		return "", err
	}
	removeStale(cache)
	return program, nil
}

// used reports whether the program exists, and marks it as in use.
func used(program string) bool {
	now := time.Now()
	return os.Chtimes(program, now, now) == nil
}

// sources finds the directory test/kube.
func sources() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		src := filepath.Join(dir, "test", "kube")
		if _, err := os.Stat(filepath.Join(src, "go.mod")); err == nil {
			return src, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no test/kube/go.mod in %s or above it: run this inside a checkout of millrace", wd)
		}
	}
}

// modFile is the go.mod file for a minor version, relative to the sources.
func modFile(src, version string) (string, error) {
	if version == "" {
		return "go.mod", nil
	}
	mod := filepath.Join("minors", "v"+strings.TrimPrefix(version, "v")+".mod")
	if _, err := os.Stat(filepath.Join(src, mod)); err == nil {
		return mod, nil
	}
	have, err := filepath.Glob(filepath.Join(src, "minors", "v*.mod"))
	if err != nil {
		return "", err
	}
	for i, file := range have {
		have[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".mod")
	}
	return "", fmt.Errorf("%s=%s: there is only %s; leave it empty for the version of test/kube/go.mod, or make another with test/kube/minor",
		versionVariable, version, strings.Join(have, ", "))
}

// fingerprint is a hash of all that decides what the build makes: the files of
// the module, with the versions in its go.mod, and the Go environment.
func fingerprint(ctx context.Context, src, mod string) (string, error) {
	h := sha256.New()
	env := goCommand(ctx, src, "env", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS", "GOEXPERIMENT", "CGO_ENABLED")
	out, err := env.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w", env, withStderr(err))
	}
	h.Write(out)
	entries, err := os.ReadDir(src)
	if err != nil {
		return "", err
	}
	files := []string{mod, strings.TrimSuffix(mod, ".mod") + ".sum"}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			files = append(files, name)
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(src, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a module without requirements has no .sum file
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(text))
		h.Write(text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// withStderr adds what a command said to its exit status.
func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// compile builds into a temporary file and renames it, so that the program
// either is whole or is not there.
func compile(ctx context.Context, src, mod, program string) error {
	fmt.Fprintf(os.Stderr, "envtest: building kube-apiserver from %s; the first time takes some minutes\n", src)
	begin := time.Now()
	tmp := program + ".tmp" // one at a time: the lock is held
	cmd := goCommand(ctx, src, "build", "-modfile="+mod, "-buildvcs=false", "-ldflags=-s -w", "-o", tmp, ".")
	var said strings.Builder
	cmd.Stdout = os.Stderr
	cmd.Stderr = &teeWriter{&said}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v in %s: %w\n%s", cmd, src, err, said.String())
	}
	if err := os.Rename(tmp, program); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "envtest: built %s in %v\n", program, time.Since(begin).Round(time.Second))
	return nil
}

// teeWriter shows the go command's messages as they come, "downloading" above
// all, and keeps them for the error.
type teeWriter struct{ kept *strings.Builder }

func (w *teeWriter) Write(p []byte) (int, error) {
	w.kept.Write(p)
	return os.Stderr.Write(p)
}

// goCommand runs the go command in the module of the program, outside of any
// workspace: its library versions cannot live with others in one.
func goCommand(ctx context.Context, src string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

// removeStale removes the programs of other sources that nobody has used for a
// while. It is housekeeping: what cannot be removed stays.
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
