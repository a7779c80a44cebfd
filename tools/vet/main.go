// Command vet runs the checks of go vet on the modules in the given directories.
//
//	go -C tools run ./vet .. ../adapters/clientgo
//
// The analyzers are go vet's. The command runs them in one process and reads all dependencies from
// source. go vet first compiles the dependencies and starts a process for each, which takes many minutes
// for the Kubernetes types.
//
// # Failure
//
// It exits with 1 and prints each mistake with its position or, if a package cannot be read, the error
// from the go command or type checker.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/tools/go/analysis/checker"

	"github.com/millrace-dev/millrace/tools/internal/types"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "vet: want the directories of modules")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed := false
	for _, dir := range os.Args[1:] {
		fmt.Printf("vet: %s\n", dir)
		if err := check(ctx, dir, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "vet: %s: %v\n", dir, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// errFound means that mistakes were found and printed.
var errFound = errors.New("mistakes were found; see above")

// check runs the analyzers on the module in a directory, including tests, and prints their findings.
func check(ctx context.Context, dir string, out io.Writer) error {
	loaded, err := types.Build{Dir: dir, Packages: []string{"./..."}}.Load(ctx)
	if err != nil {
		return err
	}
	graph, err := checker.Analyze(suite, loaded, nil)
	if err != nil {
		return err
	}
	if err := graph.PrintText(out, 0); err != nil {
		return err
	}
	if slices.ContainsFunc(graph.Roots, func(a *checker.Action) bool { return a.Err != nil || len(a.Diagnostics) > 0 }) {
		return errFound
	}
	return nil
}
