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
	"slices"
	"strings"
	"time"
)

// bench is the environment in which suites run.
type bench struct {
	root  string // of this repository
	cache string // directory for the copies
}

// ours lists the modules in this repository that a suite may import.
var ours = []string{"", "/adapters/clientgo", "/adapters/controllerruntime", "/envtest"}

const millrace = "github.com/millrace-dev/millrace"

// patience is the time limit for a suite run.
const patience = "60m"

// compare runs a suite with and without Millrace.
func (b *bench) compare(ctx context.Context, s *suite) (*result, error) {
	env := append(os.Environ(), "GOWORK=off") // a module's copy is not part of its workspace
	env = append(env, s.env...)
	if len(s.programs) > 0 {
		assets, err := b.assets(ctx, s.programs)
		if err != nil {
			return nil, err
		}
		env = append(env, "KUBEBUILDER_ASSETS="+assets, "PATH="+assets+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	r := &result{Suite: s.name, Date: time.Now().UTC().Format(time.DateOnly)}
	var err error
	if r.Revision, err = b.revision(ctx); err != nil {
		return nil, err
	}
	home := filepath.Join(b.cache, fileName(s.module+"@"+s.version))
	chosen := filepath.Join(home, fileName(s.name)+".chosen")
	for _, way := range []struct {
		name     string
		millrace bool
		results  *outcomes
	}{{"stock", false, &r.stock}, {"millrace", true, &r.millrace}} {
		dir, skip, env := filepath.Join(home, way.name), "", env
		if s.once {
			dir = filepath.Join(home, "both")
		}
		if !s.once || !way.millrace { // otherwise the copy already exists
			if err := b.copy(ctx, s, dir, way.millrace || s.once); err != nil {
				return nil, err
			}
			if s.once {
				if err := s.compile(ctx, dir, env); err != nil {
					return nil, err
				}
			}
		}
		if way.millrace {
			skip, env = s.without, append(slices.Clip(env), chosenVariable+"="+chosen)
		}
		if err := os.RemoveAll(chosen); err != nil {
			return nil, err
		}
		log := filepath.Join(home, fileName(s.name)+"."+way.name+".log")
		fmt.Printf("%s, %s: see %s\n", s.name, way.name, log)
		*way.results, err = goTest(ctx, dir, s, skip, env, log)
		if err := errors.Join(err, endOrphans()); err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
	}
	if s.once {
		if r.Chosen, err = size(chosen); err != nil {
			return nil, fmt.Errorf("nothing from Millrace was selected; did the tests start? see %s: %w", filepath.Join(home, fileName(s.name)+".millrace.log"), err)
		}
	}
	r.count()
	fmt.Println(r)
	return r, nil
}

// copy copies a suite's module and its edited dependencies. All copies are built with the same dependency
// versions, so that they differ only in the selection.
func (b *bench) copy(ctx context.Context, s *suite, dir string, chooses bool) error {
	source, err := download(ctx, s.module+"@"+s.version)
	if err != nil {
		return err
	}
	if err := replaceTree(dir, source); err != nil {
		return err
	}
	if err := b.require(ctx, dir, s.version); err != nil || !chooses {
		return err
	}
	for _, d := range s.dependencies {
		source, err := download(ctx, d.module+"@"+d.version)
		if err != nil {
			return err
		}
		to := dir + "-" + fileName(d.module)
		if err := errors.Join(replaceTree(to, source), change(to, d.edits)); err != nil {
			return err
		}
		if _, err := output(ctx, dir, "go", "mod", "edit", "-replace="+d.module+"="+to); err != nil {
			return err
		}
	}
	return s.apply(dir)
}

// fileName returns name without characters that are invalid in file names.
func fileName(name string) string { return strings.NewReplacer("/", "_", " ", "-").Replace(name) }

// size returns the size of a file in bytes.
func size(file string) (int, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return int(info.Size()), nil
}

// revision returns this repository's commit, followed by a plus sign if there are uncommitted changes.
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

// require makes the module in a directory require this repository's modules, and every other module in the
// version that these need. If the module replaces a dependency with a local directory, require uses a release
// of the dependency instead.
func (b *bench) require(ctx context.Context, dir, version string) error {
	args, err := releases(ctx, dir, version)
	if err != nil {
		return err
	}
	args = append([]string{"mod", "edit"}, args...)
	sums := []string{filepath.Join(dir, "go.sum"), filepath.Join(b.root, "test", "software", "kubernetes", "go.sum")}
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
	_, err = output(ctx, dir, "go", args...)
	return err
}

// releases returns the go mod edit arguments that replace local directories with the modules' releases.
// Kubernetes v1.2.3 publishes the modules in its staging directory as v0.2.3; other modules have the same
// version as their repository.
func releases(ctx context.Context, dir, version string) (args []string, err error) {
	out, err := output(ctx, dir, "go", "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal([]byte(out), &mod); err != nil {
		return nil, fmt.Errorf("parse the output of go mod edit in %s: %w", dir, err)
	}
	for _, r := range mod.Replace {
		v := version
		if strings.HasPrefix(r.New.Path, "./staging/") {
			v = "v0" + strings.TrimPrefix(version, "v1")
		}
		if strings.HasPrefix(r.New.Path, "./") {
			args = append(args, "-replace="+r.Old.Path+"="+r.Old.Path+"@"+v)
		}
	}
	return args, nil
}

// download returns the directory of a module in the module cache.
func download(ctx context.Context, module string) (string, error) {
	out, err := output(ctx, os.TempDir(), "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var m struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return "", fmt.Errorf("parse the output of go mod download %s: %w", module, err)
	}
	return m.Dir, nil
}

// replaceTree replaces a directory with a writable copy of another one, whose files may be read-only.
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

// output runs a command in a directory and returns its output.
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
