// Command typecheck type-checks the packages of a module, and their tests, for other systems.
//
//	go -C tools run ./typecheck .. linux/386 windows/arm64
//
// It finds what go vet with GOARCH finds first: a constant that overflows an int, a function
// that one system lacks, a file that has the wrong name. It reads all dependencies from source,
// which takes seconds. To vet for another system is to compile for it, which for the types of
// Kubernetes takes many minutes.
//
// # Failure
//
// It exits with 1 and prints each mistake in the module with its place.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "typecheck: want a directory, and systems such as linux/386")
		os.Exit(2)
	}
	failed := false
	for _, system := range os.Args[2:] {
		checked, err := check(os.Args[1], system)
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

// check type-checks the module in a directory for a system, and returns how many packages and
// tests it has. Its error has a line for each mistake.
func check(dir, system string) (checked int, err error) {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return 0, fmt.Errorf("%q: want GOOS/GOARCH", system)
	}
	const needs = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax
	roots, err := packages.Load(&packages.Config{
		Mode: needs, Dir: dir, Tests: true,
		Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
	}, "./...")
	if err != nil {
		return 0, err
	}
	var mistakes []error
	told := map[string]bool{} // a test has the files of its package, too
	for _, root := range roots {
		for _, e := range root.Errors {
			if !told[e.Error()] {
				told[e.Error()] = true
				mistakes = append(mistakes, e)
			}
		}
	}
	if len(roots) == 0 {
		mistakes = append(mistakes, errors.New("there are no packages"))
	}
	return len(roots), errors.Join(mistakes...)
}
