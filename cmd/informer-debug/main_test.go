package main

import (
	"fmt"
	"os"
	"testing"
)

// TestMain hides the kubeconfig of the machine: verbs that attach compare with its cluster.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "home")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Setenv("HOME", home)
	os.Unsetenv("KUBECONFIG")
	code := m.Run()
	os.RemoveAll(home)
	os.Exit(code)
}
