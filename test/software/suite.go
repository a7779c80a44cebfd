package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// suite is what is run of a module: once as it is and once with Millrace.
type suite struct {
	name     string
	module   string // its path
	version  string
	packages []string // relative, such as ./pkg/cache
	run      string   // of go test, where not everything is wanted
	without  string   // what cannot be run with Millrace: -skip of go test
	chosen   string   // what of Millrace takes the place of what, for the table

	edits  []edit
	choose choice
	server bool // it needs etcd and kube-apiserver

	causes []cause
}

// edit is a change of a file of the module.
type edit struct {
	file     string
	old, new string // at every place; there must be one
}

// choice is the test file that chooses Millrace's parts in a package.
type choice struct {
	imports []string // each as in an import declaration
	code    string   // of its func init
}

// cause is why tests have another result with Millrace.
type cause struct {
	tests  string // a regular expression
	reason string // a sentence
}

// apply changes the files of a copy of the module, and adds to each package the test file
// that chooses.
func (s *suite) apply(dir string) error {
	for _, e := range s.edits {
		path := filepath.Join(dir, e.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := strings.ReplaceAll(string(text), e.old, e.new)
		if changed == string(text) {
			return fmt.Errorf("%s has no place like this one: %q", e.file, e.old)
		}
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			return err
		}
	}
	for _, p := range s.packages {
		name, err := packageName(filepath.Join(dir, p))
		if err != nil {
			return err
		}
		text := fmt.Sprintf("package %s_test\n\nimport (\n\t%s\n)\n\nfunc init() {\n\t%s\n}\n", name, strings.Join(s.choose.imports, "\n\t"), s.choose.code)
		if err := os.WriteFile(filepath.Join(dir, p, "millrace_choice_test.go"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

// packageName reads the name of the package in a directory.
func packageName(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if match := packageClause.FindSubmatch(text); match != nil {
			return strings.TrimSuffix(string(match[1]), "_test"), nil
		}
	}
	return "", fmt.Errorf("no Go package in %s", dir)
}
