// Package types checks the types of packages from source, dependencies included, which takes a
// fraction of the time that building would.
package types

import (
	"context"
	"errors"
	"os"

	"golang.org/x/tools/go/packages"
)

// Build is what is checked: packages of the module in Dir, and their tests.
type Build struct {
	Dir      string
	Env      []string // beside the process's, such as GOARCH=386
	Flags    []string // of the go command
	Packages []string // as patterns
}

// Load reads the packages with their tests and all that they import. Its error has a line for
// each mistake.
func (b Build) Load(ctx context.Context) ([]*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: b.Dir, Tests: true, Env: append(os.Environ(), b.Env...), BuildFlags: b.Flags,
		Mode: packages.LoadAllSyntax | packages.NeedModule,
	}, b.Packages...)
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, errors.New("there are no packages")
	}
	var mistakes []error
	told := map[string]bool{} // a test has the files of its package, too
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

// Check returns how many packages and tests there are, which have no mistakes. It is Load
// otherwise.
func (b Build) Check(ctx context.Context) (checked int, err error) {
	loaded, err := b.Load(ctx)
	return len(loaded), err
}
