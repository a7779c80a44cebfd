package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// servers maps the server programs that suites start to their packages.
var servers = map[string]string{"etcd": "go.etcd.io/etcd/server/v3", "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"}

// assets builds the server programs and returns their directory. They are the servers from test/kube, built
// as separate programs because other projects' suites expect that.
func (b *bench) assets(ctx context.Context, programs []string) (string, error) {
	dir := filepath.Join(b.cache, "assets")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	kube := filepath.Join(b.root, "test", "kube")
	// Use a copy of go.mod, because the etcd binary needs more dependencies than the library.
	mod := filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(kube, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	// Some suites, such as cluster-api's, ask the server for its version. Report the release's.
	version, err := output(ctx, kube, "go", "list", "-mod=mod", "-modfile="+mod, "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	for _, program := range programs {
		fmt.Printf("building %s\n", program)
		_, err := output(ctx, kube, "go", "build", "-mod=mod", "-modfile="+mod, "-o", filepath.Join(dir, program),
			"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion="+strings.TrimSpace(version), servers[program])
		if err != nil {
			return "", err
		}
	}
	return dir, nil
}
