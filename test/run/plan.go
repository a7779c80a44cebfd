package main

import (
	"bytes"
	"fmt"
	"go/build/constraint"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// job is one run of go test.
type job struct {
	dir      string // the module directory
	flags    []string
	packages []string
}

func (j job) String() string {
	words := []string{"go"}
	if j.dir != "." {
		words = append(words, "-C", j.dir)
	}
	return strings.Join(slices.Concat(words, []string{"test"}, j.flags, j.packages), " ")
}

// schedule contains the jobs of one run and the tests that have no job.
type schedule struct {
	jobs    []job
	without []string // modules without tests
	later   []string // modules and packages that are left out of this run
}

// plan returns the schedule for the modules below a directory. It leaves out the modules in later, which must
// exist. If there are any, it also leaves out the packages that would be compiled a second time, without the
// race detector.
func plan(root string, flags, packages, later []string) (schedule, error) {
	if len(packages) > 0 {
		return schedule{jobs: []job{{dir: root, flags: flags, packages: packages}}}, nil
	}
	modules, err := find(root)
	if err != nil {
		return schedule{}, err
	}
	for _, name := range later {
		if !slices.ContainsFunc(modules, func(m module) bool { return m.tested && m.dir == name }) {
			return schedule{}, fmt.Errorf("-later: %s is not a module with tests", name)
		}
	}
	s := schedule{later: slices.Clone(later)}
	for _, m := range modules {
		if slices.Contains(later, m.dir) {
			continue
		}
		if !m.tested {
			s.without = append(s.without, m.dir)
			continue
		}
		// Packages that are slow under the race detector come first, so that the last of them does not run
		// alone at the end.
		s.jobs = append(s.jobs, job{dir: m.dir, flags: flags, packages: append(slices.Clone(m.slowed), "./...")})
		plain := withoutRace(flags)
		if len(plain) == len(flags) || len(m.slowed) == 0 {
			continue
		}
		if len(later) == 0 {
			s.jobs = append(s.jobs, job{dir: m.dir, flags: plain, packages: m.slowed})
			continue
		}
		for _, name := range m.slowed {
			s.later = append(s.later, filepath.ToSlash(filepath.Join(m.dir, name))+" without the race detector")
		}
	}
	return s, nil
}

func withoutRace(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return strings.TrimLeft(flag, "-") == "race" })
}

// module is a directory with a go.mod.
type module struct {
	dir    string
	tested bool     // there are test files
	slowed []string // packages with fewer tests under the race detector
}

// find returns all modules below a directory, the root module first.
func find(root string) ([]module, error) {
	var modules []module
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if path != root && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				modules = append(modules, module{dir: path})
			}
			return nil
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		m := innermost(modules, path)
		if m == nil {
			return nil
		}
		m.tested = true
		asks, err := asksForRace(path)
		if !asks || err != nil {
			return err
		}
		inside, err := filepath.Rel(m.dir, filepath.Dir(path))
		if name := "./" + filepath.ToSlash(inside); !slices.Contains(m.slowed, name) {
			m.slowed = append(m.slowed, name)
		}
		return err
	})
	if err == nil && len(modules) == 0 {
		err = fmt.Errorf("no go.mod below %s", root)
	}
	return modules, err
}

// modulePath returns the module path in a directory's go.mod, or "".
func modulePath(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// innermost returns the innermost module that contains a file.
func innermost(modules []module, path string) *module {
	var m *module
	for i := range modules {
		// The walk visits a directory before its contents, so the last match is the innermost.
		if dir := modules[i].dir; dir == "." || strings.HasPrefix(path, dir+string(filepath.Separator)) {
			m = &modules[i]
		}
	}
	return m
}

// asksForRace reports whether building a file depends on the race detector.
func asksForRace(path string) (bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("package ")) {
			break
		}
		if !constraint.IsGoBuild(string(line)) {
			continue
		}
		expr, err := constraint.Parse(strings.TrimSpace(string(line)))
		if err != nil {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		with := expr.Eval(func(tag string) bool { return true })
		without := expr.Eval(func(tag string) bool { return tag != "race" })
		return with != without, nil
	}
	return false, nil
}
