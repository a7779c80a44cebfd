// Package types type-checks packages and their dependencies from source, which takes a fraction of the time
// of a build.
package types

import (
	"context"
	"errors"
	"os"

	"golang.org/x/tools/go/packages"
)

// Build specifies the packages to check: packages in the module in Dir, and their tests.
type Build struct {
	Dir      string
	Env      []string // added to the process's environment, such as GOARCH=386
	Flags    []string // flags for the go command
	Packages []string // as patterns
}

// Load loads the packages with their tests and imports. Its error has one line per mistake.
func (b Build) Load(ctx context.Context) ([]*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: b.Dir, Tests: true, Env: append(os.Environ(), b.Env...), BuildFlags: b.Flags,
		Mode: packages.LoadAllSyntax | packages.NeedModule,
	}, b.Packages...)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, errors.New("no packages match")
	}
	var mistakes []error
	told := map[string]bool{} // a test variant includes its package's files again
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if !told[e.Error()] {
				told[e.Error()] = true
				mistakes = append(mistakes, e)
			}
		}
	})
	return loaded, errors.Join(mistakes...)
}

// Check is like [Build.Load], but returns only the number of packages and tests.
func (b Build) Check(ctx context.Context) (checked int, err error) {
	loaded, err := b.Load(ctx)
	return len(loaded), err
}
