package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// released lists the directories of the modules in a release. All other modules exist only to measure, test
// or build the repository.
var released = []string{".", "envtest", "adapters/clientgo", "adapters/controllerruntime", "test/conformance", "cmd/informer-debug", "cmd/informer-bench"}

// tree is a release's source tree in a directory.
type tree struct {
	dir     string
	version string
	time    time.Time // of the commit
	modules []*member
}

// member is a module in a tree.
type member struct {
	folder string // relative to the tree's directory
	path   string
	file   *modfile.File
}

func (t *tree) folder(m *member) string { return filepath.Join(t.dir, filepath.FromSlash(m.folder)) }

// module returns the module with the given path, or nil if it is not released.
func (t *tree) module(path string) *member {
	for _, m := range t.modules {
		if m.path == path {
			return m
		}
	}
	return nil
}

// tree writes the commit's files to dir, in their released form. If the commit is tagged, they already have that
// form.
func (r *release) tree(ctx context.Context, dir string) (*tree, error) {
	t, err := r.export(ctx, r.revision, dir)
	if err != nil {
		return nil, err
	}
	for _, m := range t.modules {
		if err := t.rewrite(m); err != nil {
			return nil, err
		}
	}
	return t, t.addSums()
}

// export writes the files of a commit to a directory.
func (r *release) export(ctx context.Context, revision, dir string) (*tree, error) {
	seconds, err := r.git(ctx, "log", "-1", "--format=%cI", revision, "--")
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir, version: r.version}
	if t.time, err = time.Parse(time.RFC3339, strings.TrimSpace(string(seconds))); err != nil {
		return nil, err
	}
	archive, err := r.git(ctx, "archive", "--format=tar", revision)
	if err != nil {
		return nil, err
	}
	if err := unpack(archive, dir); err != nil {
		return nil, err
	}
	for _, folder := range released {
		m := &member{folder: folder}
		name := filepath.Join(t.folder(m), "go.mod")
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && revision != r.revision {
			continue // the module did not exist in that earlier release
		}
		if err != nil {
			return nil, err
		}
		if m.file, err = modfile.Parse(name, text, nil); err != nil {
			return nil, err
		}
		m.path = m.file.Module.Mod.Path
		t.modules = append(t.modules, m)
	}
	return t, nil
}

// git runs a git command in the repository.
func (r *release) git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", r.repo}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// unpack writes the files in an archive to a directory. It skips symbolic links, as they are not part of
// modules.
func unpack(archive []byte, dir string) error {
	root := filepath.Clean(dir)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	in, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer in.Close()
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := in.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			return err
		}
		if err := in.WriteFile(h.Name, text, h.FileInfo().Mode().Perm()); err != nil {
			return err
		}
	}
}

// rewrite removes a module's replacements and makes it require the release's version. A module in a
// subdirectory gets the repository's licence, as when the go command creates a module from a
// subdirectory.
func (t *tree) rewrite(m *member) error {
	for _, r := range append([]*modfile.Replace(nil), m.file.Replace...) {
		if r.New.Version == "" && t.module(r.Old.Path) == nil {
			return fmt.Errorf("%s replaces %s with a directory that is not released", m.path, r.Old.Path)
		}
		if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	for _, r := range append([]*modfile.Require(nil), m.file.Require...) {
		if t.module(r.Mod.Path) == nil {
			continue
		}
		if err := m.file.AddRequire(r.Mod.Path, t.version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	dir := t.folder(m)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err == nil {
		return nil
	}
	license, err := os.ReadFile(filepath.Join(t.dir, "LICENSE"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o644)
}

// addSums adds the hashes of the release's modules to the go.sum files that need them. It starts with modules
// that do not need any, because a module's hash covers its go.sum.
func (t *tree) addSums() error {
	lines := map[string]string{} // hashes of the finished modules
	for len(lines) < len(t.modules) {
		finished := len(lines)
		for _, m := range t.modules {
			needs, ready := t.needs(m, lines)
			if lines[m.path] != "" || !ready {
				continue
			}
			if err := addLines(filepath.Join(t.folder(m), "go.sum"), needs); err != nil {
				return err
			}
			sum, err := t.sum(m)
			if err != nil {
				return err
			}
			lines[m.path] = sum
		}
		if len(lines) == finished {
			return errors.New("the modules of the release require each other in a cycle")
		}
	}
	return nil
}

// needs returns the go.sum lines for a module's requirements, if all of them are known.
func (t *tree) needs(m *member, lines map[string]string) (text string, ready bool) {
	for _, r := range m.file.Require {
		if t.module(r.Mod.Path) == nil {
			continue
		}
		if lines[r.Mod.Path] == "" {
			return "", false
		}
		text += lines[r.Mod.Path]
	}
	return text, true
}

// addLines appends text to a file, unless the file already contains it.
func addLines(name, text string) error {
	before, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.Contains(string(before), text) {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

// at returns the module at the release's version.
func (t *tree) at(m *member) module.Version {
	return module.Version{Path: m.path, Version: t.version}
}
