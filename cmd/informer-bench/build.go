package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/millrace-dev/millrace/bench/results"
)

// repository finds the directory above the working directory that has the
// contestants.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "bench", "contestants")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no contestants at %s or above: run informer-bench inside of Millrace's repository", dir)
		}
	}
}

// build builds contestants into dir and returns their programs and, for the
// results file, their versions.
func build(ctx context.Context, root, dir string, names []string, progress io.Writer) (programs, versions map[string]string, err error) {
	programs, versions = map[string]string{}, map[string]string{}
	for _, name := range names {
		fmt.Fprintf(progress, "building %s\n", name)
		at := mains[name]
		source := filepath.Join(root, "bench", "contestants", at.module)
		program := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if _, err := goTool(ctx, source, "build", "-o", program, "./"+at.command); err != nil {
			return nil, nil, fmt.Errorf("build %s: %w", name, err)
		}
		programs[name] = program
		if module := modules[name]; module != "" {
			version, err := goTool(ctx, source, "list", "-m", "-f", "{{.Version}}", module)
			if err != nil {
				return nil, nil, fmt.Errorf("version of %s: %w", name, err)
			}
			versions[name] = strings.TrimSpace(version)
		}
	}
	if commit := revision(root); commit != "" {
		versions[results.Millrace] = commit
	}
	return programs, versions, nil
}

// revision is the commit of the source that was measured, "+" after it where
// something is not committed; empty outside a repository.
func revision(root string) string {
	cmd := exec.Command("git", "describe", "--always", "--dirty=+", "--abbrev=12")
	cmd.Dir = root
	described, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(described))
}

// mains are where the programs of the contestants are: a module below
// bench/contestants, and a directory in it.
var mains = map[string]struct{ module, command string }{
	results.Millrace:               {"millrace", ""},
	results.ClientGo:               {"clientgo", "stock"},
	results.ClientGoFactory:        {"clientgo", "factory"},
	results.ClientGoInformer:       {"clientgo", "newinformer"},
	results.ControllerRuntime:      {"controllerruntime", "stock"},
	results.ControllerRuntimeCache: {"controllerruntime", "adapted"},
	results.Floor:                  {"floor", ""},
}

// modules are those whose version is that of the contestant. Millrace has the
// revision of the source.
var modules = map[string]string{results.ClientGo: "k8s.io/client-go", results.ControllerRuntime: "sigs.k8s.io/controller-runtime"}

func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", errors.Join(err, errors.New(strings.TrimSpace(stderr.String())))
	}
	return string(stdout), nil
}
