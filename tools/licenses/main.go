// Command licenses checks that all dependencies of the modules in the given directories have allowed
// licences.
//
//	go -C tools run ./licenses .. ../adapters/clientgo
//
// A dependency is a module with a package in a build for Linux, macOS or Windows. Tests are excluded,
// because they are not shipped. For each package in the build, the command reads every licence file in
// its directory and all parent directories up to the module root.
//
// # Failure
//
// It exits with 1, printing the file and the reason, if a licence is not in package dependency's list, a
// file was not recognised, or a dependency has no licence.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"

	"github.com/millrace-dev/millrace/tools/internal/dependency"
)

func main() {
	found, err := check(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
	fmt.Println("licenses:", found)
}

// check checks the dependencies of all modules and returns a summary. Its error has one line per
// complaint.
func check(dirs []string) (summary string, err error) {
	modules := dependency.Set{}
	for _, dir := range dirs {
		for _, system := range dependency.Systems {
			if err := modules.Add(nil, dir, system, "./..."); err != nil {
				return "", err
			}
		}
	}
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return "", err
	}
	var complaints []string
	count := map[string]int{}
	for _, d := range modules.Sorted() {
		names, err := d.Licenses(classifier)
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
