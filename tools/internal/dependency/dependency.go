// Package dependency finds the third-party modules in a build, and their licences.
//
// It uses the classifier from go-licenses. The go-licenses command itself does not fit, because it reads one
// module at a time and does not support a list of licences with reasons.
package dependency

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
)

// ours is the path prefix of the repository's modules.
const ours = "github.com/millrace-dev/millrace"

// Systems lists the operating systems that programs are built for.
var Systems = []string{"linux", "darwin", "windows"}

// Dependency is a third-party module.
type Dependency struct {
	Path string // with its version
	Dir  string
	used map[string]bool // directories of its packages in the build
}

// Set maps module paths to dependencies.
type Set map[string]*Dependency

// Sorted returns the dependencies sorted by path.
func (s Set) Sorted() (all []*Dependency) {
	for _, path := range slices.Sorted(maps.Keys(s)) {
		all = append(all, s[path])
	}
	return all
}

// Add adds the dependencies of packages in dir's module when built for a system. It runs the go command
// with env, or with this process's environment if env is nil.
func (s Set) Add(env []string, dir, system string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Module"}, packages...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = append(slices.Clip(env), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s in %s: %w", cmd, dir, err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("%s in %s: %w", cmd, dir, err)
		}
		m := p.Module
		if m == nil || m.Main || m.Path == ours || strings.HasPrefix(m.Path, ours+"/") {
			continue // part of the standard library or the repository
		}
		path := m.Path + "@" + m.Version
		if s[path] == nil {
			s[path] = &Dependency{Path: path, Dir: m.Dir, used: map[string]bool{}}
		}
		s[path].used[p.Dir] = true
	}
	return nil
}

// isLicense matches the names of licence files.
var isLicense = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying)([.-].*)?$`)

// Files returns the licence files that apply to the packages in the build, relative to the module's root.
func (d *Dependency) Files() ([]string, error) {
	dirs := map[string]bool{".": true}
	for dir := range d.used {
		below, err := filepath.Rel(d.Dir, dir)
		if err != nil {
			return nil, err
		}
		for ; below != "."; below = filepath.Dir(below) {
			dirs[below] = true
		}
	}
	var files []string
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(filepath.Join(d.Dir, dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && isLicense.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files, nil
}

// Licenses returns a module's licences. The error has a line for each one that is not allowed.
func (d *Dependency) Licenses(c *classifier.Classifier) ([]string, error) {
	files, err := d.Files()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Path, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no licence file: remove the dependency, or review it and add the result to judged in tools/internal/dependency/allowed.go", d.Path)
	}
	all := map[string]bool{}
	var complaints []error
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(d.Dir, file))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Path, err)
		}
		module, _, _ := strings.Cut(d.Path, "@")
		if _, known := judged[module+"/"+filepath.ToSlash(file)]; known {
			continue
		}
		names := recognise(c, text)
		if len(names) == 0 {
			complaints = append(complaints, fmt.Errorf("%s: %s was not recognised: review it, and add the result to judged in tools/internal/dependency/allowed.go", d.Path, file))
		}
		for _, name := range names {
			all[name] = true
			if _, ok := allowed[name]; !ok {
				complaints = append(complaints, fmt.Errorf("%s: %s contains %s, which is not allowed in tools/internal/dependency/allowed.go: remove the dependency, or add the licence with a reason", d.Path, file, name))
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), errors.Join(complaints...)
}

// recognise returns the licences whose text appears in a file.
func recognise(c *classifier.Classifier, text []byte) []string {
	names := map[string]bool{}
	for _, m := range c.Match(text).Matches {
		if m.MatchType == "License" {
			names[m.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
