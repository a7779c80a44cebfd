package main

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

// ours is the path that all modules of the repository begin with.
const ours = "github.com/millrace-dev/millrace"

// systems are what programs are built for.
var systems = []string{"linux", "darwin", "windows"}

// dependency is a module that somebody else wrote.
type dependency struct {
	path string // with its version
	dir  string
	used map[string]bool // the directories of its packages that are in a build
}

// list adds the dependencies of the module in a directory.
func list(dir string, modules map[string]*dependency) error {
	for _, system := range systems {
		cmd := exec.Command("go", "list", "-deps", "-json=Dir,Module", "./...")
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s in %s: %w", cmd, dir, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p struct {
				Dir    string
				Module *struct{ Path, Version, Dir string }
			}
			if err := dec.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return fmt.Errorf("%s in %s: %w", cmd, dir, err)
			}
			m := p.Module
			if m == nil || m.Path == ours || strings.HasPrefix(m.Path, ours+"/") {
				continue // of the standard library, or of the repository
			}
			path := m.Path + "@" + m.Version
			if modules[path] == nil {
				modules[path] = &dependency{path: path, dir: m.Dir, used: map[string]bool{}}
			}
			modules[path].used[p.Dir] = true
		}
	}
	return nil
}

// isLicense tells the name of a file that holds a licence.
var isLicense = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying)([.-].*)?$`)

// files returns the licence files that the packages in a build stand under, as
// paths below the module's root.
func (d *dependency) files() ([]string, error) {
	dirs := map[string]bool{".": true}
	for dir := range d.used {
		below, err := filepath.Rel(d.dir, dir)
		if err != nil {
			return nil, err
		}
		for ; below != "."; below = filepath.Dir(below) {
			dirs[below] = true
		}
	}
	var files []string
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(filepath.Join(d.dir, dir))
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

// licenses returns the licences of a module. The error has a line for each that is
// not allowed.
func (d *dependency) licenses(c *classifier.Classifier) ([]string, error) {
	files, err := d.files()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: it has no licence file: do without it, or add what a person found to judged in tools/licenses/allowed.go", d.path)
	}
	all := map[string]bool{}
	var complaints []error
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(d.dir, file))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.path, err)
		}
		module, _, _ := strings.Cut(d.path, "@")
		if _, known := judged[module+"/"+filepath.ToSlash(file)]; known {
			continue
		}
		names := recognise(c, text)
		if len(names) == 0 {
			complaints = append(complaints, fmt.Errorf("%s: %s was not recognised: read it, and add what you found to judged in tools/licenses/allowed.go", d.path, file))
		}
		for _, name := range names {
			all[name] = true
			if _, ok := allowed[name]; !ok {
				complaints = append(complaints, fmt.Errorf("%s: %s holds %s, which tools/licenses/allowed.go does not allow: do without the module, or add the licence with a reason", d.path, file, name))
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
