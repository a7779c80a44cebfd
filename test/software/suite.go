package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// suite is a set of packages from a module. It is run once unchanged and once with Millrace.
type suite struct {
	name     string
	module   string // its path
	version  string
	packages []string // relative paths, such as ./pkg/cache
	run      string   // the -run flag for go test
	without  string   // the -skip flag for go test with Millrace, for tests that cannot run
	chosen   string   // the replaced functions, for the table

	edits        []edit
	dependencies []dependency
	choose       choice
	once         bool // the suite takes a long time to compile, so a single program is built for both runs

	programs []string // servers started by the suite; see assets
	env      []string // NAME=value

	causes []cause
}

// dependency is an edited module that a suite requires.
type dependency struct {
	module  string // its path
	version string
	edits   []edit
}

// edit is a change to a file in the module.
type edit struct {
	file     string
	old, new string // every occurrence is replaced; there must be at least one
}

// choice contains the code for the test file that selects Millrace's components in a package.
type choice struct {
	imports []string // in the form of an import declaration
	code    string   // body of its init function; if the suite is compiled once, it must call countChosen()
}

// chosenVariable is the environment variable that selects Millrace in a suite that is compiled once. Its
// value is the path of a file to which each selected informer or cache adds a byte.
const chosenVariable = "MILLRACE_CHOSEN"

// counting is additional code in suites that are compiled once.
const counting = `
func countChosen() {
	file, err := os.OpenFile(os.Getenv("` + chosenVariable + `"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.WriteString("."); err != nil {
		panic(err)
	}
}
`

// cause explains why tests have different results with Millrace.
type cause struct {
	tests  string // a regular expression
	reason string // a sentence
}

// apply applies the edits to a copy of the module, and adds the selecting test file to each package.
func (s *suite) apply(dir string) error {
	if err := change(dir, s.edits); err != nil {
		return err
	}
	for _, p := range s.packages {
		name, err := packageName(filepath.Join(dir, p))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p, "millrace_choice_test.go"), []byte(s.choosing(name)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// choosing returns the selecting test file for a package.
func (s *suite) choosing(name string) string {
	imports, code, more := s.choose.imports, s.choose.code, ""
	if s.once {
		imports = append([]string{`"os"`}, imports...)
		code = fmt.Sprintf("if os.Getenv(%q) == \"\" {\n\t\treturn\n\t}\n\t%s", chosenVariable, code)
		more = counting
	}
	return fmt.Sprintf("package %s_test\n\nimport (\n\t%s\n)\n\nfunc init() {\n\t%s\n}\n%s", name, strings.Join(imports, "\n\t"), code, more)
}

// change applies edits to the files below a directory.
func change(dir string, edits []edit) error {
	for _, e := range edits {
		path := filepath.Join(dir, e.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := strings.ReplaceAll(string(text), e.old, e.new)
		if changed == string(text) {
			return fmt.Errorf("%s does not contain %q", e.file, e.old)
		}
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

// packageName returns the package name used in a directory.
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
