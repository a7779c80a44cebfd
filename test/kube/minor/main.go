// Command minor creates the go.mod and go.sum files for building test/kube for another Kubernetes minor
// version:
//
//	go -C test/kube run ./minor v1.37.0     # minors/v1.37.mod, minors/v1.37.sum
//	go -C test/kube build -modfile=minors/v1.37.mod .
//
// k8s.io/kubernetes requires its staging modules at v0.0.0 and replaces them with directories in its own
// tree, which other modules cannot see. minor replaces each with the release that corresponds to the
// version, and uses the etcd version that Kubernetes requires.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const path = "github.com/millrace-dev/millrace/test/kube"

func main() {
	if len(os.Args) != 2 || !strings.HasPrefix(os.Args[1], "v1.") || strings.Count(os.Args[1], ".") != 2 {
		fmt.Fprintln(os.Stderr, "usage: minor v1.MINOR.PATCH")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "minor:", err)
		os.Exit(1)
	}
}

func run(version string) error {
	upstream, err := requirements(version)
	if err != nil {
		return err
	}
	text, err := upstream.file(version)
	if err != nil {
		return err
	}
	minor := version[:strings.LastIndex(version, ".")]
	name := filepath.Join("minors", minor+".mod")
	if err := os.MkdirAll("minors", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	_, err = goCommand("mod", "tidy", "-modfile="+name)
	return err
}

// module is the output of `go mod edit -json`.
type module struct {
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct{ Old, New struct{ Path string } }
}

// requirements reads the go.mod file of a Kubernetes version.
func requirements(version string) (*module, error) {
	out, err := goCommand("mod", "download", "-json", "k8s.io/kubernetes@"+version)
	if err != nil {
		return nil, err
	}
	var files struct{ GoMod string }
	if err := json.Unmarshal(out, &files); err != nil {
		return nil, err
	}
	if out, err = goCommand("mod", "edit", "-json", files.GoMod); err != nil {
		return nil, err
	}
	var m module
	return &m, json.Unmarshal(out, &m)
}

// file returns the go.mod file; go mod tidy completes it.
func (m *module) file(version string) (string, error) {
	release := "v0" + strings.TrimPrefix(version, "v1")
	var b strings.Builder
	fmt.Fprintf(&b, "// Made by ./minor %s.\n\nmodule %s\n\ngo %s\n\n", version, path, m.Go)
	fmt.Fprintf(&b, "require k8s.io/kubernetes %s\n\nrequire (\n", version)
	etcd := false
	for _, r := range m.Require {
		if r.Version == "v0.0.0" {
			r.Version = release
		}
		etcd = etcd || r.Path == "go.etcd.io/etcd/server/v3"
		fmt.Fprintf(&b, "\t%s %s\n", r.Path, r.Version)
	}
	b.WriteString(")\n\nreplace (\n")
	staging := 0
	for _, r := range m.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			fmt.Fprintf(&b, "\t%s => %s %s\n", r.Old.Path, r.Old.Path, release)
			staging++
		}
	}
	b.WriteString(")\n")
	if !etcd || staging == 0 {
		return "", fmt.Errorf("the go.mod file of Kubernetes %s lacks the etcd server or the staging modules", version)
	}
	return b.String(), nil
}

// goCommand runs the go command and returns its stdout.
func goCommand(args ...string) ([]byte, error) {
	out, err := exec.Command("go", args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
