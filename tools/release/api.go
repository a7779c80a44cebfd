package main

import (
	"context"
	"fmt"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// compareAPI prints the changes in the exported API since the last tag, whose files it writes to dir. It
// returns an error if there are incompatible changes not announced by the version.
func (r *release) compareAPI(ctx context.Context, now *tree, dir string) error {
	tag, err := r.lastTag(ctx)
	if err != nil {
		return err
	}
	if tag == "" {
		fmt.Fprintln(r.out, "api: no version has been tagged before this one, so there is nothing to compare with")
		return nil
	}
	before, err := r.export(ctx, tag, dir)
	if err != nil {
		return err
	}
	broken := 0
	for _, old := range before.modules {
		m := now.module(old.path)
		if m == nil {
			fmt.Fprintf(r.out, "api: %s: the module was removed since %s\n", old.path, tag)
			broken++
			continue
		}
		report, err := compareModule(ctx, before, now, old, m)
		if err != nil {
			return fmt.Errorf("compare the API of %s: %w", m.path, err)
		}
		n := 0
		for _, c := range report.Changes {
			if !c.Compatible {
				n++
			}
		}
		broken += n
		fmt.Fprintf(r.out, "api: %s: %d changes since %s, %d of them incompatible\n%s", m.path, len(report.Changes), tag, n, report)
	}
	if broken > 0 && !announces(tag, r.version) {
		return fmt.Errorf("%s breaks users of %s: raise the minor version before v1, or the major version from v1 on", r.version, tag)
	}
	return nil
}

// announces reports whether a version may be incompatible with an older one: before v1, if the minor versions
// differ, and from v1 on, if the major versions differ.
func announces(old, now string) bool {
	if semver.Major(old) != semver.Major(now) {
		return true
	}
	return semver.Major(now) == "v0" && semver.MajorMinor(old) != semver.MajorMinor(now)
}

// lastTag returns the highest tagged version of the root module in the commit's history, or "".
func (r *release) lastTag(ctx context.Context) (string, error) {
	out, err := r.git(ctx, "tag", "--list", "v*", "--merged", r.revision)
	if err != nil {
		return "", err
	}
	last := ""
	for _, tag := range strings.Fields(string(out)) {
		if semver.IsValid(tag) && semver.Compare(tag, r.version) < 0 && semver.Compare(tag, last) > 0 {
			last = tag
		}
	}
	return last, nil
}

func compareModule(ctx context.Context, before, now *tree, old, m *member) (apidiff.Report, error) {
	was, err := load(ctx, before, old)
	if err != nil {
		return apidiff.Report{}, err
	}
	is, err := load(ctx, now, m)
	if err != nil {
		return apidiff.Report{}, err
	}
	return apidiff.ModuleChanges(was, is), nil
}

// load returns a module's importable packages, with the release's modules taken from the tree.
func load(ctx context.Context, t *tree, m *member) (*apidiff.Module, error) {
	mod, err := os.CreateTemp(t.dir, "api-*.mod")
	if err != nil {
		return nil, err
	}
	defer mod.Close()
	text, err := os.ReadFile(filepath.Join(t.folder(m), "go.mod"))
	if err != nil {
		return nil, err
	}
	if _, err := mod.Write(text); err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(t.folder(m), "go.sum"))
	if err == nil {
		err = os.WriteFile(strings.TrimSuffix(mod.Name(), ".mod")+".sum", sum, 0o644)
	}
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, sibling := range t.modules {
		if sibling == m {
			continue
		}
		edit := exec.CommandContext(ctx, "go", "mod", "edit", "-replace="+sibling.path+"="+t.folder(sibling), mod.Name())
		if out, err := edit.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", edit, err, out)
		}
	}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: t.folder(m), BuildFlags: []string{"-modfile=" + mod.Name(), "-mod=mod"},
		Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedFiles | packages.NeedCompiledGoFiles,
	}, "./...")
	if err != nil {
		return nil, err
	}
	api := &apidiff.Module{Path: m.path}
	for _, p := range loaded {
		for _, e := range p.Errors {
			return nil, e
		}
		if p.Name != "main" && !strings.Contains("/"+p.PkgPath+"/", "/internal/") && !inTests(m, p.Types) {
			api.Packages = append(api.Packages, p.Types)
		}
	}
	return api, nil
}

// inTests reports whether a package is for the repository's own tests. The API of such packages is
// internal, except for the simulated server and its network.
func inTests(m *member, p *types.Package) bool {
	below := strings.TrimPrefix(p.Path(), m.path+"/")
	return strings.HasPrefix(below, "test/") && !strings.HasPrefix(below, "apiservertest") && below != "apiservertest/network" ||
		strings.HasPrefix(below, "bench/") || strings.HasPrefix(below, "examples/")
}
