// Package dependency tells what modules of others are in a build, and their licences.
//
// The classifier is the one that go-licenses uses. That command reads one module at
// a time and has no list of licences with reasons, which is why it is not used
// itself.
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

// ours is the path that the modules of the repository begin with that others require.
const ours = "github.com/millrace-dev/millrace"

// Systems are what programs are built for.
var Systems = []string{"linux", "darwin", "windows"}

// Dependency is a module that somebody else wrote.
type Dependency struct {
	Path string // with its version
	Dir  string
	used map[string]bool // the directories of its packages that are in a build
}

// Set has dependencies by their Path.
type Set map[string]*Dependency

// Sorted returns the dependencies in the order of their paths.
func (s Set) Sorted() (all []*Dependency) {
	for _, path := range slices.Sorted(maps.Keys(s)) {
		all = append(all, s[path])
	}
	return all
}

// Add adds what packages of the module in a directory need when they are built for a
// system. The go command is run with env, or in this process's environment if env is nil.
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
			continue // of the standard library, or of the repository
		}
		path := m.Path + "@" + m.Version
		if s[path] == nil {
			s[path] = &Dependency{Path: path, Dir: m.Dir, used: map[string]bool{}}
		}
		s[path].used[p.Dir] = true
	}
	return nil
}

// isLicense tells the name of a file that holds a licence.
var isLicense = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying)([.-].*)?$`)

// Files returns the licence files that the packages in a build stand under, as
// paths below the module's root.
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

// Licenses returns the licences of a module. The error has a line for each that is
// not allowed.
func (d *Dependency) Licenses(c *classifier.Classifier) ([]string, error) {
	files, err := d.Files()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Path, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: it has no licence file: do without it, or add what a person found to judged in tools/internal/dependency/allowed.go", d.Path)
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
			complaints = append(complaints, fmt.Errorf("%s: %s was not recognised: read it, and add what you found to judged in tools/internal/dependency/allowed.go", d.Path, file))
		}
		for _, name := range names {
			all[name] = true
			if _, ok := allowed[name]; !ok {
				complaints = append(complaints, fmt.Errorf("%s: %s holds %s, which tools/internal/dependency/allowed.go does not allow: do without the module, or add the licence with a reason", d.Path, file, name))
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), errors.Join(complaints...)
}

// recognise returns the licences whose text is in a file.
func recognise(c *classifier.Classifier, text []byte) []string {
	names := map[string]bool{}
	for _, m := range c.Match(text).Matches {
		if m.MatchType == "License" {
			names[m.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
