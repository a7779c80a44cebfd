package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// reaching is the file name prefix of inputs that are kept because of the code they reach. Inputs with other
// names once found a bug, and are always kept.
const reaching = "reaches-"

// keep selects the inputs to keep for each target, from those already kept and those in Go's build cache. It
// goes from the smallest input to the largest, and selects each one that reaches code not reached by the
// previous ones.
func keep(ctx context.Context, targets []target) error {
	w, err := newWorkbench(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	for _, t := range targets {
		binary, err := w.binary(ctx, t.pkg, "-cover", "-coverpkg", t.pkg+"/...")
		if err != nil {
			return err
		}
		c := corpus{target: t, binary: binary, profile: filepath.Join(w.dir, "profile"), reached: map[string]bool{}}
		if err := c.grow(ctx, filepath.Join(w.reached(t.pkg), t.name)); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// corpus holds the inputs kept for one target.
type corpus struct {
	target
	binary, profile string
	reached         map[string]bool // the code blocks reached
}

// grow adds inputs from a directory.
func (c *corpus) grow(ctx context.Context, from string) error {
	to := filepath.Join(c.dir, "testdata", "fuzz", c.name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	kept, err := filepath.Glob(filepath.Join(to, reaching+"*"))
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil {
		return err
	}
	inputs := map[string][]byte{} // by file name
	for _, path := range append(found, kept...) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inputs[reaching+strings.TrimPrefix(filepath.Base(path), reaching)] = text
	}
	for _, path := range kept {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if _, err := c.reach(ctx, ""); err != nil {
		return err
	}
	names := slices.SortedFunc(maps.Keys(inputs), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(inputs[a]), len(inputs[b])), cmp.Compare(a, b))
	})
	chosen := 0
	for _, name := range names {
		path := filepath.Join(to, name)
		if err := os.WriteFile(path, inputs[name], 0o644); err != nil {
			return err
		}
		more, err := c.reach(ctx, name)
		if err != nil || more == 0 {
			err = errors.Join(err, os.Remove(path))
		} else {
			chosen++
		}
		if err != nil {
			return err
		}
	}
	_ = os.Remove(to) // if it is empty
	fmt.Printf("%s: %d of %d inputs\n", c.target, chosen, len(names))
	return nil
}

// reach runs one input, or all if name is empty, and counts the newly reached code blocks.
func (c *corpus) reach(ctx context.Context, name string) (more int, err error) {
	run := "^" + c.name + "$"
	if name != "" {
		run += "/^" + name + "$"
	}
	cmd := exec.CommandContext(ctx, c.binary, "-test.run", run, "-test.coverprofile", c.profile)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("input %q: %w\n%s", name, err, out)
	}
	text, err := os.ReadFile(c.profile)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		block, count, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasSuffix(count, " 0") && !c.reached[block] {
			c.reached[block] = true
			more++
		}
	}
	return more, nil
}
