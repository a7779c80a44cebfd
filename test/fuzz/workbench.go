package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// workbench holds the packages' test binaries. It builds each of them once.
type workbench struct {
	dir      string // of the binaries
	module   string // in the working directory
	cache    string // Go's build cache
	binaries map[string]string
}

func newWorkbench(ctx context.Context) (*workbench, error) {
	module, err := output(ctx, "go", "list", "-m")
	if err != nil {
		return nil, err
	}
	cache, err := output(ctx, "go", "env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "millrace-fuzz-")
	if err != nil {
		return nil, err
	}
	return &workbench{dir, module, cache, map[string]string{}}, nil
}

// output runs a command and returns its output.
func output(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// close removes the binaries.
func (w *workbench) close() { os.RemoveAll(w.dir) }

// reached returns the directory in which fuzzing stores inputs that reach new code in a package. go test
// -fuzz uses the same directory.
func (w *workbench) reached(pkg string) string { return filepath.Join(w.cache, "fuzz", pkg) }

// instrumented returns the build flags for fuzzing, which instrument only the module's packages. go test
// -fuzz would instrument everything that is linked, mostly generated code for Kubernetes types, and read all
// counters after each input.
func (w *workbench) instrumented() []string {
	return []string{"-gcflags=" + w.module + "/...=-d=libfuzzer"}
}

// binary builds a package's test binary.
func (w *workbench) binary(ctx context.Context, pkg string, flags ...string) (string, error) {
	if binary := w.binaries[pkg]; binary != "" {
		return binary, nil
	}
	binary := filepath.Join(w.dir, fmt.Sprint(len(w.binaries), ".test"))
	args := append([]string{"test", "-c", "-vet=off", "-o", binary}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, pkg)...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	w.binaries[pkg] = binary
	return binary, nil
}
