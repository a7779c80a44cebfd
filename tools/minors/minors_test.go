package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersionsFollowEachOther(t *testing.T) {
	for want, versions := range map[string][]string{
		"":                     {"v0.35.4", "v0.36.3", "v0.37.2"},
		"not the minor":        {"v0.35.4", "v0.37.2"},
		"is not the minor ver": {"v0.36.3", "v0.36.4"},
		"not a release":        {"v0.35.4", "v0.36.0-rc.1"},
	} {
		err := successive(versions)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", versions, err, want)
		}
	}
}

// module writes a module that imports a package of k8s.io/api.
func module(t *testing.T, used string) string {
	t.Helper()
	dir := t.TempDir()
	sum, err := os.ReadFile(filepath.Join("..", "..", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":    "module example.com/x\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.35.4\n\tk8s.io/apimachinery v0.35.4\n)\n",
		"go.sum":    string(sum),
		"x_test.go": "package x\n\nimport _ \"k8s.io/api/" + used + "\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDifferencesBetweenVersionsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("asks for modules")
	}
	for used, fits := range map[string]bool{"core/v1": true, "scheduling/v1alpha1": false} {
		var out strings.Builder
		c := checker{dir: module(t, used), packages: []string{"./..."}, out: &out}
		before, err := os.ReadFile(filepath.Join(c.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		err = c.run(t.Context(), false)
		if (err == nil) != fits {
			t.Errorf("%s: got %v, fits is %v\n%s", used, err, fits, &out)
		}
		if after, _ := os.ReadFile(filepath.Join(c.dir, "go.mod")); string(after) != string(before) {
			t.Errorf("%s: go.mod has changed:\n%s", used, after)
		}
	}
}

func TestBothLibrariesHaveOneVersion(t *testing.T) {
	if got, err := required(filepath.Join("..", "..", "go.mod")); err != nil || !release.MatchString(got) {
		t.Errorf("got %q, %v", got, err)
	}
	mod := filepath.Join(t.TempDir(), "go.mod")
	if err := os.WriteFile(mod, []byte("module example.com/x\n\nrequire k8s.io/api v0.35.4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := required(mod); err == nil {
		t.Errorf("got %q and no error", got)
	}
}
