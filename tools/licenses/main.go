// Command licenses checks that every dependency of the modules in the given
// directories has a licence that we allow.
//
//	go -C tools run ./licenses .. ../adapters/clientgo
//
// A dependency is a module that has a package in a build for Linux, macOS or
// Windows. Tests are not looked at: nobody ships them. Of a dependency every
// licence file counts that stands beside a package of the build or above it, up to
// the root of the module.
//
// The classifier is the one that go-licenses uses. That command reads one module at
// a time and has no list of licences with reasons, which is why it is not used
// itself.
//
// # Failure
//
// It exits with 1, and says of which file and why, if a licence is not in the list
// in allowed.go, if a file could not be recognised, or if a dependency has none.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
)

func main() {
	found, err := check(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
	fmt.Println("licenses:", found)
}

// check looks at the dependencies of all modules and returns a summary. Its error
// has a line for each complaint.
func check(dirs []string) (summary string, err error) {
	modules := map[string]*dependency{}
	for _, dir := range dirs {
		if err := list(dir, modules); err != nil {
			return "", err
		}
	}
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return "", err
	}
	var complaints []string
	count := map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		names, err := modules[path].licenses(classifier)
		if err != nil {
			complaints = append(complaints, err.Error())
		}
		for _, name := range names {
			count[name]++
		}
	}
	if len(complaints) > 0 {
		return "", fmt.Errorf("%d of %d dependencies:\n%s", len(complaints), len(modules), strings.Join(complaints, "\n"))
	}
	parts := []string{fmt.Sprintf("%d dependencies", len(modules))}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, count[name]))
	}
	return strings.Join(parts, ", "), nil
}
