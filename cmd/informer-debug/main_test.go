package main

import (
	"fmt"
	"os"
	"testing"
)

// asProgram is an environment variable that makes the test binary run as informer-debug.
const asProgram = "INFORMER_DEBUG_AS_PROGRAM"

// TestMain hides the machine's kubeconfig, because commands that attach compare with its cluster.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
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
