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
)

// repository finds the directory above the working directory that has the
// contestants.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "bench", "millrace", "go.mod")); err == nil {
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
		source := filepath.Join(root, "bench", sources[name].directory)
		program := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if _, err := goTool(ctx, source, "build", "-tags", sources[name].tag, "-o", program, "."); err != nil {
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
		versions[millrace] = commit
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

// modules are those whose version is that of the contestant. Millrace has the
// revision of the source.
var modules = map[string]string{clientGo: "k8s.io/client-go", controllerRuntime: "sigs.k8s.io/controller-runtime"}

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
