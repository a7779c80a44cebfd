package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// bench is where suites are run.
type bench struct {
	root  string // of this repository
	cache string // for the copies
}

// ours are the modules of this repository that a suite may import.
var ours = []string{"", "/adapters/clientgo", "/adapters/controllerruntime", "/envtest"}

const millrace = "github.com/millrace-dev/millrace"

// patience is how long one run of a suite may take.
const patience = "60m"

// compare runs a suite both ways.
func (b *bench) compare(ctx context.Context, s *suite) (*result, error) {
	source, err := download(ctx, s.module+"@"+s.version)
	if err != nil {
		return nil, err
	}
	env := os.Environ()
	if s.server {
		assets, err := b.assets(ctx)
		if err != nil {
			return nil, err
		}
		env = append(env, "KUBEBUILDER_ASSETS="+assets, "PATH="+assets+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	r := &result{Suite: s.name, Date: time.Now().UTC().Format(time.DateOnly)}
	if r.Revision, err = b.revision(ctx); err != nil {
		return nil, err
	}
	home := filepath.Join(b.cache, strings.ReplaceAll(s.module+"@"+s.version, "/", "_"))
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	for _, way := range []struct {
		name    string
		results *outcomes
	}{{"stock", &r.stock}, {"millrace", &r.millrace}} {
		dir := filepath.Join(home, way.name)
		if err := replaceTree(dir, source); err != nil {
			return nil, err
		}
		// Both are built with the same versions, so that only the choice differs.
		if err := b.require(ctx, dir); err != nil {
			return nil, err
		}
		skip := ""
		if way.name == "millrace" {
			skip = s.without
			if err := s.apply(dir); err != nil {
				return nil, err
			}
		}
		log := filepath.Join(home, strings.ReplaceAll(s.name, " ", "-")+"."+way.name+".log")
		fmt.Printf("%s, %s: see %s\n", s.name, way.name, log)
		*way.results, err = goTest(ctx, dir, s, skip, env, log)
		if err := errors.Join(err, endOrphans()); err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
	}
	r.count()
	fmt.Println(r)
	return r, nil
}

// revision is the commit of this repository, with a plus sign if files have been changed
// since.
func (b *bench) revision(ctx context.Context) (string, error) {
	commit, err := output(ctx, b.root, "git", "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := output(ctx, b.root, "git", "status", "--porcelain", "--untracked-files=no")
	if changes != "" {
		commit += "+"
	}
	return commit, err
}

// require has the module in a directory require this repository's, and everything in the
// versions that these need.
func (b *bench) require(ctx context.Context, dir string) error {
	args := []string{"mod", "edit"}
	sums := []string{filepath.Join(dir, "go.sum")}
	for _, m := range ours {
		args = append(args, "-require="+millrace+m+"@v0.0.0", "-replace="+millrace+m+"="+filepath.Join(b.root, m))
		sums = append(sums, filepath.Join(b.root, m, "go.sum"))
	}
	var all []byte
	for _, name := range sums {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all = append(all, text...)
	}
	if err := os.WriteFile(sums[0], all, 0o644); err != nil {
		return err
	}
	_, err := output(ctx, dir, "go", args...)
	return err
}

// download returns the directory of a module in the module cache.
func download(ctx context.Context, module string) (string, error) {
	out, err := output(ctx, os.TempDir(), "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var m struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return "", fmt.Errorf("read what go mod download says of %s: %w", module, err)
	}
	return m.Dir, nil
}

// replaceTree makes a directory a copy of another one, whose files may be read-only.
func replaceTree(to, from string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, inside), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, inside), text, info.Mode().Perm()|0o200)
	})
}

// output runs a command in a directory.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}
