package main

import (
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"testing"
)

// TestMain hides the machine's kubeconfig, because commands that attach compare with its cluster.
// The go command keeps its directories.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "home")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if cache, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		os.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
	}
	os.Setenv("GOPATH", build.Default.GOPATH)
	os.Setenv("HOME", home)
	os.Unsetenv("KUBECONFIG")
	code := m.Run()
	os.RemoveAll(home)
	os.Exit(code)
}
