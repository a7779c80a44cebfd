package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/tools/internal/dependency"
)

// programs lists the commands to build, below cmd.
var programs = []string{"informer-debug", "informer-bench"}

var architectures = []string{"amd64", "arm64"}

//go:embed Containerfile
var containerfile []byte

// target is a program for one system.
type target struct {
	program, system, architecture string
}

// native reports whether the target can run on this system.
func (t target) native() bool {
	return t.system == runtime.GOOS && t.architecture == runtime.GOARCH
}

// executable returns the name of the program's file.
func (t target) executable() string {
	if t.system == "windows" {
		return t.program + ".exe"
	}
	return t.program
}

// archive returns the name of the target's archive.
func (t target) archive(version string) string {
	name := strings.Join([]string{t.program, version, t.system, t.architecture}, "_")
	if t.system == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

func targets() (all []target) {
	for _, program := range programs {
		for _, system := range dependency.Systems {
			for _, architecture := range architectures {
				all = append(all, target{program, system, architecture})
			}
		}
	}
	return all
}

// pack writes all release artifacts to a directory: an archive and a bill of materials for each target, the
// krew manifest, a Containerfile, and the checksums of all these files.
func (r *release) pack(ctx context.Context, dir string) error {
	tmp, err := os.MkdirTemp("", "millrace-release-")
	if err != nil {
		return err
	}
	defer removeAll(tmp)
	tree, err := r.tree(ctx, filepath.Join(tmp, "tree"))
	if err != nil {
		return err
	}
	b, err := newBuilder(ctx, tmp, tree)
	if err != nil {
		return err
	}
	files := map[string][]byte{"Containerfile": containerfile}
	for _, t := range targets() {
		binary, err := b.build(ctx, t)
		if err != nil {
			return err
		}
		if err := b.describe(ctx, t, binary, files); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
		how := "built, and not run"
		if t.native() {
			how = "built and run"
		}
		fmt.Fprintf(r.out, "release: %s: %s\n", t.archive(r.version), how)
	}
	if files["informer.yaml"], err = krewManifest(tree, files); err != nil {
		return err
	}
	files["SHA256SUMS"] = checksums(files)
	fmt.Fprintln(r.out, "release: Containerfile and informer.yaml: written, and not tried")
	return save(dir, files)
}

// checksums returns checksums in the format of sha256sum -c.
func checksums(files map[string][]byte) (text []byte) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text = fmt.Appendf(text, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	return text
}

// save writes files to an empty directory.
func save(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	others, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("%s is not empty: remove its contents", dir)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// builder builds programs as go install does for users, from the release's modules, but without local paths
// or timestamps.
type builder struct {
	tree    *tree
	gopath  string
	env     []string
	texts   licenses
	extras  map[string][]file // manuals and completions by program
	scratch string
}

func newBuilder(ctx context.Context, tmp string, tree *tree) (*builder, error) {
	w := world{version: tree.version, proxy: filepath.Join(tmp, "proxy"), tree: tree}
	if err := writeProxy(ctx, w.proxy, tree); err != nil {
		return nil, err
	}
	env, err := w.environment(ctx, filepath.Join(tmp, "cache"))
	if err != nil {
		return nil, err
	}
	texts, err := newLicenses()
	if err != nil {
		return nil, err
	}
	b := &builder{tree: tree, gopath: filepath.Join(tmp, "gopath"), texts: texts, extras: map[string][]file{}, scratch: tmp}
	b.env = append(append(os.Environ(), env...), "GOBIN=", "GOPATH="+b.gopath, "CGO_ENABLED=0",
		fmt.Sprint("SOURCE_DATE_EPOCH=", tree.time.Unix()))
	for _, program := range programs {
		native, err := b.build(ctx, target{program, runtime.GOOS, runtime.GOARCH})
		if err != nil {
			return nil, err
		}
		if b.extras[program], err = b.document(ctx, program, native); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// build returns the contents of a program's file.
func (b *builder) build(ctx context.Context, t target) (string, error) {
	install := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w",
		b.tree.modules[0].path+"/cmd/"+t.program+"@"+b.tree.version)
	install.Dir = b.scratch
	install.Env = append(b.env, "GOOS="+t.system, "GOARCH="+t.architecture)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s for %s/%s: %w\n%s", install, t.system, t.architecture, err, out)
	}
	if t.native() {
		return filepath.Join(b.gopath, "bin", t.executable()), nil
	}
	return filepath.Join(b.gopath, "bin", t.system+"_"+t.architecture, t.executable()), nil
}

// shells maps the shells supported by cobra to completion file names.
var shells = map[string]string{"bash": "%s.bash", "zsh": "_%s", "fish": "%s.fish", "powershell": "%s.ps1"}

// document checks a program's version, and then runs the program to generate its manual and completions.
func (b *builder) document(ctx context.Context, program, path string) (files []file, err error) {
	say := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = b.env
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmd, err)
		}
		return out, nil
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if info.Main.Version != b.tree.version {
		return nil, fmt.Errorf("%s has version %s, want %s", path, info.Main.Version, b.tree.version)
	}
	for _, shell := range slices.Sorted(maps.Keys(shells)) {
		script, err := say("completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + fmt.Sprintf(shells[shell], program), text: script, mode: 0o644})
	}
	dir := filepath.Join(b.scratch, "man", program)
	if _, err := say("man", dir); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(dir, page.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "man/" + page.Name(), text: text, mode: 0o644})
	}
	return files, nil
}

// describe adds a target's archive and bill of materials to the files.
func (b *builder) describe(ctx context.Context, t target, path string, files map[string][]byte) error {
	linked := dependency.Set{}
	if err := linked.Add(b.env, filepath.Join(b.tree.dir, "cmd", t.program), t.system, "."); err != nil {
		return err
	}
	notices, names, err := b.texts.of(linked)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(b.tree.dir, "LICENSE"))
	if err != nil {
		return err
	}
	content := append([]file{
		{name: t.executable(), text: binary, mode: 0o755},
		{name: "LICENSE", text: license, mode: 0o644},
		{name: "NOTICES", text: notices, mode: 0o644},
	}, b.extras[t.program]...)
	name := t.archive(b.tree.version)
	if files[name], err = archive(t.system, content, b.tree.time); err != nil {
		return err
	}
	files[name+".cdx.json"], err = billOfMaterials(t, b.tree, path, names)
	return err
}
