package dependency

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
)

// The licences of a dependency are those in the licence files between its root and the packages of
// the build.
func TestLicensesOfADependency(t *testing.T) {
	c, err := assets.DefaultClassifier()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		files map[string]string
		want  string // the licences
		err   string
	}{
		"allowed":             {map[string]string{"LICENSE": "MIT/pristine"}, "MIT", ""},
		"two":                 {map[string]string{"LICENSE": "MIT/pristine", "LICENCE.txt": "Apache-2.0/pristine"}, "Apache-2.0 MIT", ""},
		"of a package":        {map[string]string{"LICENSE": "MIT/pristine", "used/COPYING": "GPL-2.0/license"}, "GPL-2.0 MIT", "used/COPYING contains GPL-2.0, which is not allowed in tools/internal/dependency/allowed.go"},
		"above a package":     {map[string]string{"LICENSE": "MIT/pristine", "used/LICENSE.md": "AGPL-3.0/license"}, "AGPL-3.0 MIT", "used/LICENSE.md contains AGPL-3.0"},
		"of what is not used": {map[string]string{"LICENSE": "MIT/pristine", "other/COPYING": "GPL-2.0/license"}, "MIT", ""},
		"none":                {map[string]string{"README.md": "MIT/pristine", "license.go": "MIT/pristine"}, "", "no licence file"},
		"not recognised":      {map[string]string{"LICENSE": ""}, "", "LICENSE was not recognised"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Dependency{Path: "example.com/m@v1.0.0", Dir: t.TempDir(), used: map[string]bool{}}
			d.used[d.Dir], d.used[filepath.Join(d.Dir, "used")] = true, true
			if err := os.MkdirAll(filepath.Join(d.Dir, "used"), 0o755); err != nil {
				t.Fatal(err)
			}
			for file, license := range test.files {
				text := []byte("whatever you like, if you ask us first")
				if license != "" {
					if text, err = assets.ReadLicenseFile("License/" + license + ".txt"); err != nil {
						t.Fatal(err)
					}
				}
				path := filepath.Join(d.Dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			names, err := d.Licenses(c)
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}
