package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// repository returns the working directory, or its closest parent, that contains the contestants.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "bench", "contestants")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no contestants at %s or above: run informer-bench inside Millrace's repository", dir)
		}
	}
}

// place locates a contestant's main package: a module below bench/, a directory in that module, and build
// tags.
type place struct{ module, directory, tags string }

// placesOf returns the places to look for a contestant: first where it is now, then where earlier revisions
// kept it.
func placesOf(contestant string) []place {
	return map[string][]place{
		results.Millrace:                {{"contestants/millrace", "whole", ""}, {"contestants/millrace", "", ""}, {"millrace", "", ""}},
		results.MillracePacked:          {{"contestants/millrace", "packed", ""}},
		results.ClientGo:                {{"contestants/clientgo", "stock", ""}, {"clientgo", "", ""}},
		results.ClientGoFactory:         {{"contestants/clientgo", "factory", ""}, {"clientgo", "", "millrace_factory"}},
		results.ClientGoInformer:        {{"contestants/clientgo", "newinformer", ""}, {"clientgo", "", "millrace_informer"}},
		results.ControllerRuntime:       {{"contestants/controllerruntime", "stock", ""}, {"controllerruntime", "", ""}},
		results.ControllerRuntimeCache:  {{"contestants/controllerruntime", "adapted", ""}, {"controllerruntime", "", "millrace"}},
		results.ControllerRuntimePacked: {{"contestants/controllerruntime", "packed", ""}},
		results.Unmarshal:               {{"contestants/floor", "unmarshal", ""}},
		results.Floor:                   {{"contestants/floor", "", ""}, {"floor", "", ""}},
	}[contestant]
}

// libraries maps a contestant to the module whose version identifies it. Millrace is identified by its source
// revision instead.
var libraries = map[string]string{results.ClientGo: "k8s.io/client-go", results.ControllerRuntime: "sigs.k8s.io/controller-runtime"}

// builder builds entrants.
type builder struct {
	root     string // of the repository
	dir      string // binaries, and worktrees of other revisions
	progress io.Writer
	versions map[string]string // of the built contestants, for the results file
}

// build builds each entrant from its revision and sets entrant.program.
func (b *builder) build(ctx context.Context, entrants []entrant) error {
	b.versions = map[string]string{}
	if commit := describe(b.root); commit != "" {
		b.versions[results.Millrace] = commit
	}
	var revisions []string
	for _, e := range entrants {
		if !slices.Contains(revisions, e.revision) {
			revisions = append(revisions, e.revision)
		}
	}
	for i, revision := range revisions {
		if err := b.buildRevision(ctx, revision, filepath.Join(b.dir, fmt.Sprint("revision-", i)), entrants); err != nil {
			return err
		}
	}
	return nil
}

// buildRevision builds the entrants of one revision.
func (b *builder) buildRevision(ctx context.Context, revision, dir string, entrants []entrant) (err error) {
	source, commit := b.root, ""
	if revision != "" {
		var remove func() error
		if commit, remove, err = checkOut(ctx, b.root, revision, dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
		source = dir
	}
	for i := range entrants {
		e := &entrants[i]
		if e.revision != revision {
			continue
		}
		fmt.Fprintf(b.progress, "building %s\n", e.name)
		e.program = filepath.Join(b.dir, fmt.Sprint("contestant-", i))
		version, err := buildOne(ctx, source, e)
		if err != nil {
			return fmt.Errorf("build %s: %w", e.name, err)
		}
		if version = cmp.Or(commit, version); version != "" {
			b.versions[e.name] = version
		}
	}
	return nil
}

// buildOne builds an entrant from a source tree. It returns the version of the entrant's library, or "" for
// Millrace.
func buildOne(ctx context.Context, source string, e *entrant) (version string, err error) {
	for _, at := range placesOf(e.contestant) {
		module := filepath.Join(source, "bench", filepath.FromSlash(at.module))
		if _, err := os.Stat(filepath.Join(module, at.directory, "main.go")); err != nil {
			continue
		}
		if _, err := goTool(ctx, module, "build", "-tags", at.tags, "-o", e.program, "./"+at.directory); err != nil {
			return "", err
		}
		if library := libraries[e.contestant]; library != "" {
			return goTool(ctx, module, "list", "-m", "-f", "{{.Version}}", library)
		}
		return "", nil
	}
	return "", errors.New("the contestant does not exist at this revision")
}
