// Command typecheck type-checks a module's packages and their tests for other systems.
//
//	go -C tools run ./typecheck .. linux/386 windows/arm64
//
// It finds the mistakes that go vet would find first when run with GOOS or GOARCH: a constant that overflows
// an int, a function missing on one system, a wrong file name. It reads all dependencies from source, which
// takes seconds. go vet would compile them for the other system, which takes many minutes for the Kubernetes
// types.
//
// # Failure
//
// It exits with 1 and prints each mistake in the module with its position.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/millrace-dev/millrace/tools/internal/types"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "typecheck: want a directory, and systems such as linux/386")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed := false
	for _, system := range os.Args[2:] {
		checked, err := check(ctx, os.Args[1], system)
		if err != nil {
			fmt.Fprintf(os.Stderr, "typecheck: %s:\n%v\n", system, err)
			failed = true
			continue
		}
		fmt.Printf("typecheck: %s: %d packages and tests\n", system, checked)
	}
	if failed {
		os.Exit(1)
	}
}

// check type-checks the module in a directory for a system, and returns the number of packages and
// tests. Its error has one line per mistake.
func check(ctx context.Context, dir, system string) (checked int, err error) {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return 0, fmt.Errorf("%q: want GOOS/GOARCH", system)
	}
	build := types.Build{Dir: dir, Env: []string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0"}, Packages: []string{"./..."}}
	return build.Check(ctx)
}
