// Command minors checks that the root module works with each of the last three minor versions of
// k8s.io/api and k8s.io/apimachinery. go.mod requires the oldest of them.
//
//	go -C tools run ./minors          # check the types of everything, tests included
//	go -C tools run ./minors -test    # run all tests of the module with each
//	go -C tools run ./minors -test ./wire ./rest/...
//
// For each newer version, it updates a temporary copy of go.mod, as go get would for a program that uses
// both. It type-checks from source, which takes a fraction of the time of a build. Without -test, it skips
// the oldest version, which all other checks of the module already use.
//
// # Failure
//
// It exits with 1 if a package or one of its tests does not compile with a version, if a test fails, or if
// go.mod does not require the minor version before the first one in the list.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"

	"github.com/millrace-dev/millrace/tools/internal/types"
)

// newer lists the releases to check besides the one in go.mod. When Kubernetes releases a new minor
// version, append it, and move the first one from here to go.mod.
var newer = []string{"v0.36.3", "v0.37.2"}

func main() {
	dir := flag.String("C", "..", "the `directory` of the module")
	test := flag.Bool("test", false, "run the tests, with the oldest version too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := checker{dir: *dir, packages: flag.Args(), out: os.Stdout}
	if len(c.packages) == 0 {
		c.packages = []string{"./..."}
	}
	if err := c.run(ctx, *test); err != nil {
		fmt.Fprintln(os.Stderr, "minors:", err)
		os.Exit(1)
	}
}

// checker checks packages in the module in a directory.
type checker struct {
	dir      string
	packages []string
	out      io.Writer
}

// run checks all versions, even if one of them fails.
func (c *checker) run(ctx context.Context, test bool) error {
	oldest, err := required(filepath.Join(c.dir, "go.mod"))
	if err != nil {
		return err
	}
	if err := successive(append([]string{oldest}, newer...)); err != nil {
		return err
	}
	var errs []error
	if test {
		errs = append(errs, c.test(ctx, oldest, filepath.Join(c.dir, "go.mod")))
	}
	for _, version := range newer {
		errs = append(errs, c.with(ctx, version, test))
	}
	return errors.Join(errs...)
}

// with checks against a newer version.
func (c *checker) with(ctx context.Context, version string, test bool) error {
	tmp, err := os.MkdirTemp("", "minors-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	mod := filepath.Join(tmp, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tmp, name), text, 0o644); err != nil {
			return err
		}
	}
	// Pass -t, because go.sum also needs the dependencies of tests.
	get := exec.CommandContext(ctx, "go", "get", "-t", "-modfile="+mod, "k8s.io/api@"+version, "k8s.io/apimachinery@"+version, "./...")
	get.Dir = c.dir
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", get, err, out)
	}
	if test {
		return c.test(ctx, version, mod)
	}
	return c.types(ctx, version, mod)
}

// types type-checks all packages and their tests.
func (c *checker) types(ctx context.Context, version, mod string) error {
	checked, err := types.Build{Dir: c.dir, Flags: []string{"-modfile=" + mod}, Packages: c.packages}.Check(ctx)
	if err != nil {
		return fmt.Errorf("with %s of k8s.io/api and k8s.io/apimachinery:\n%w", version, err)
	}
	fmt.Fprintf(c.out, "minors: %s: %d packages and tests of them fit\n", version, checked)
	return nil
}

// test runs the tests.
func (c *checker) test(ctx context.Context, version, mod string) error {
	fmt.Fprintf(c.out, "minors: %s: go test\n", version)
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-modfile=" + mod}, c.packages...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, c.out, c.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("with %s: %s: %w", version, cmd, err)
	}
	return nil
}

var (
	requirement = regexp.MustCompile(`(?m)^\s*(?:require )?(k8s\.io/(?:api|apimachinery)) (v\S+)`)
	release     = regexp.MustCompile(`^v0\.(\d+)\.\d+$`)
)

// required returns the version of k8s.io/api and k8s.io/apimachinery in a go.mod file.
func required(mod string) (string, error) {
	text, err := os.ReadFile(mod)
	if err != nil {
		return "", err
	}
	found := requirement.FindAllStringSubmatch(string(text), -1)
	if len(found) != 2 || found[0][2] != found[1][2] {
		return "", fmt.Errorf("%s does not require one version of both k8s.io/api and k8s.io/apimachinery: %q", mod, found)
	}
	return found[0][2], nil
}

// successive returns an error unless each minor version directly follows the previous one.
func successive(versions []string) error {
	last := 0
	for _, v := range versions {
		var minor int
		if match := release.FindStringSubmatch(v); match == nil {
			return fmt.Errorf("%q is not a release of k8s.io/api", v)
		} else if _, err := fmt.Sscan(match[1], &minor); err != nil {
			return err
		}
		if last > 0 && minor != last+1 {
			return fmt.Errorf("%s is not the minor version after its predecessor in %q: go.mod contains the oldest, the list in tools/minors the others", v, versions)
		}
		last = minor
	}
	return nil
}
