package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scripts contains scripts that play new users, in the language of package testscript with additional
// commands: see [commands].
//
//go:embed strangers/*.txtar
var scripts embed.FS

// world is the environment for the scripts: a proxy with the release's modules, and the release's
// documents.
type world struct {
	version string
	proxy   string // directory
	tree    *tree
	out     io.Writer
	scripts []string // files; nil for the embedded ones
}

// play runs the scripts whose names contain a text, in a directory, and prints each result.
func (w *world) play(ctx context.Context, dir, only string) error {
	files := w.scripts
	if files == nil {
		if err := os.CopyFS(dir, scripts); err != nil {
			return err
		}
		var err error
		if files, err = filepath.Glob(filepath.Join(dir, "strangers", "*.txtar")); err != nil {
			return err
		}
	}
	var chosen []string
	for _, f := range files {
		if strings.Contains(filepath.Base(f), only) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no script name contains %q", only)
	}
	env, err := w.environment(ctx, filepath.Join(dir, "cache"))
	if err != nil {
		return err
	}
	t := &teller{out: w.out}
	t.protect(func() {
		testscript.RunT(t, testscript.Params{
			Files:              chosen,
			WorkdirRoot:        mkdir(dir, "work"),
			ContinueOnError:    false,
			RequireUniqueNames: true,
			Setup: func(e *testscript.Env) error {
				e.Vars = append(e.Vars, env...)
				e.Setenv("PATH", filepath.Join(e.WorkDir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
				e.Setenv("HOME", e.WorkDir)
				e.Setenv("GOBIN", filepath.Join(e.WorkDir, "bin"))
				return withoutTelemetry(e)
			},
			Cmds: commands(w.tree.dir),
		})
	})
	if t.failed {
		return errors.New("a script failed")
	}
	return ctx.Err()
}

// withoutTelemetry keeps the go command from starting a process that might still write to a script's home
// directory after the script has ended; see go.dev/doc/telemetry.
func withoutTelemetry(e *testscript.Env) error {
	config := filepath.Join(e.WorkDir, ".config") // as os.UserConfigDir derives it from HOME
	if runtime.GOOS == "darwin" {
		config = filepath.Join(e.WorkDir, "Library", "Application Support")
	}
	mode := filepath.Join(config, "go", "telemetry", "mode")
	if err := os.MkdirAll(filepath.Dir(mode), 0o755); err != nil {
		return err
	}
	return os.WriteFile(mode, []byte("off"), 0o644)
}

func mkdir(dir, name string) string {
	dir = filepath.Join(dir, name)
	_ = os.MkdirAll(dir, 0o755) // if this fails, creating files in it reports why
	return dir
}

// environment returns the environment variables for the scripts. Their module cache is empty, but they
// share the build cache. This works because scripts build with -trimpath; otherwise the module cache's
// path would be part of the build.
func (w *world) environment(ctx context.Context, cache string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOFLAGS").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	has := strings.Split(string(out), "\n")
	programs, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	ours := w.tree.modules[0].path
	env := []string{
		"VERSION=" + w.version,
		"GOPROXY=file://" + filepath.ToSlash(w.proxy) + ",file://" + filepath.ToSlash(filepath.Join(has[0], "cache", "download")) + "," + has[2],
		"GOMODCACHE=" + cache,
		"GOCACHE=" + has[1],
		"GONOSUMDB=" + ours + "," + ours + "/*", // it is not published yet
		"GOTOOLCHAIN=local",
		"GOWORK=off",
		"GOFLAGS=" + has[3],
		"XDG_CACHE_HOME=" + programs, // where envtest keeps the API server it has built
	}
	for _, name := range []string{"GOSUMDB", "CGO_ENABLED", "SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}

// teller implements testscript.T outside of go test. It prints a script's output and records whether the
// script failed.
type teller struct {
	out    io.Writer
	name   string
	log    bytes.Buffer
	failed bool
	// skipped is set if a script cannot run here.
	skipped bool
}

// over is the panic value that ends a script.
type over struct{}

func (t *teller) Skip(args ...any)  { fmt.Fprint(&t.log, args...); t.skipped = true; panic(over{}) }
func (t *teller) Fatal(args ...any) { fmt.Fprint(&t.log, args...); t.FailNow() }
func (t *teller) FailNow()          { t.failed = true; panic(over{}) }
func (t *teller) Log(args ...any)   { fmt.Fprintln(&t.log, args...) }
func (t *teller) Parallel()         {}
func (t *teller) Verbose() bool     { return false }

// Run runs the scripts one after another, because they share a module cache and two cores.
func (t *teller) Run(name string, script func(testscript.T)) {
	one := &teller{out: t.out, name: name}
	one.protect(func() { script(one) })
	if one.failed {
		t.failed = true
		fmt.Fprintf(t.out, "--- stranger %s FAILED\n%s\n", name, one.log.String())
		return
	}
	if one.skipped {
		fmt.Fprintf(t.out, "--- stranger %s was not played\n%s\n", name, one.log.String())
		return
	}
	fmt.Fprintf(t.out, "--- stranger %s is served\n", name)
}

// protect calls f and returns even if f panics or calls runtime.Goexit.
func (t *teller) protect(f func()) {
	defer func() {
		if p := recover(); p != nil && p != any(over{}) {
			panic(p)
		}
	}()
	f()
}
