package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository returns a repository with three modules, structured as ours, and one that is not
// released.
func repository(t *testing.T) *release {
	t.Helper()
	r := &release{repo: t.TempDir(), revision: "HEAD", version: "v0.2.0", out: t.Output()}
	const require = "module example.com/mill/adapters/%s\n\ngo 1.26\n\nrequire example.com/mill v0.0.0\n\nreplace example.com/mill => ../..\n"
	for name, text := range map[string]string{
		"go.mod":                            "module example.com/mill\n\ngo 1.26\n",
		"LICENSE":                           "as you like\n",
		"README.md":                         "```go\npackage main\n\nimport \"example.com/mill\"\n\nfunc main() { println(mill.Wheel()); select {} }\n```\n",
		"mill.go":                           "package mill\n\nfunc Wheel() string { return \"turns\" }\n",
		"envtest/go.mod":                    "module example.com/mill/envtest\n\ngo 1.26\n",
		"envtest/e.go":                      "package envtest\n",
		"cmd/mill/main.go":                  "package main\n\nfunc main() { println(\"mill\") }\n",
		"test/real/go.mod":                  "module example.com/mill/test/real\n\ngo 1.26\n",
		"test/conformance/go.mod":           "module example.com/mill/test/conformance\n\ngo 1.26\n\nrequire example.com/mill v0.0.0\n\nreplace example.com/mill => ../..\n",
		"test/conformance/conformance.go":   "package conformance\n\nimport \"example.com/mill\"\n\nvar _ = mill.Wheel\n",
		"cmd/informer-bench/go.mod":         "module example.com/mill/cmd/informer-bench\n\ngo 1.26\n\nrequire example.com/mill v0.0.0\n\nreplace example.com/mill => ../..\n",
		"cmd/informer-bench/main.go":        "package main\n\nimport \"example.com/mill\"\n\nfunc main() { _ = mill.Wheel }\n",
		"cmd/informer-debug/go.mod":         "module example.com/mill/cmd/informer-debug\n\ngo 1.26\n\nrequire example.com/mill v0.0.0\n\nreplace example.com/mill => ../..\n",
		"cmd/informer-debug/main.go":        "package main\n\nimport \"example.com/mill\"\n\nfunc main() { _ = mill.Wheel }\n",
		"adapters/clientgo/go.mod":          strings.ReplaceAll(require, "%s", "clientgo"),
		"adapters/clientgo/a.go":            "package clientgo\n\nimport \"example.com/mill\"\n\nvar Wheel = mill.Wheel\n",
		"adapters/controllerruntime/go.mod": strings.ReplaceAll(require, "%s", "controllerruntime") + "\nrequire example.com/mill/adapters/clientgo v0.0.0\n\nreplace example.com/mill/adapters/clientgo => ../clientgo\n",
		"adapters/controllerruntime/a.go":   "package controllerruntime\n\nimport \"example.com/mill/adapters/clientgo\"\n\nvar Wheel = clientgo.Wheel\n",
	} {
		write(t, filepath.Join(r.repo, name), text)
	}
	commit(t, r, "init", "--quiet")
	return r
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// commit runs a git command and commits everything.
func commit(t *testing.T, r *release, first ...string) {
	t.Helper()
	for _, args := range [][]string{first, {"add", "-A"}, {"-c", "user.name=m", "-c", "user.email=m@example.com", "commit", "--quiet", "--allow-empty", "-m", "m"}} {
		if _, err := r.git(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
}

// A user can build the modules with only the proxy, and their go.sum files are complete.
func TestReleaseCanBeUsedFromTheProxy(t *testing.T) {
	r := repository(t)
	write(t, filepath.Join(r.repo, "mill.go"), "not committed")
	dir := t.TempDir()
	defer removeAll(dir)
	tree, err := r.tree(t.Context(), filepath.Join(dir, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "stranger.txtar")
	write(t, script, `
exec go install example.com/mill/cmd/mill@$VERSION
exec go install example.com/mill/cmd/informer-debug@$VERSION
exec mill
stderr mill
block README.md 1 main.go
exec go mod init example.com/stranger
exec go get example.com/mill@$VERSION
exec go build -o program .
! exec go get example.com/mill/test/real@$VERSION
cd adapter
exec go mod init example.com/stranger
exec go get example.com/mill/adapters/controllerruntime@$VERSION
exec go run .
stderr turns
-- adapter/main.go --
package main

import "example.com/mill/adapters/controllerruntime"

func main() { println(controllerruntime.Wheel()) }
`)
	var out strings.Builder
	w := world{version: r.version, proxy: filepath.Join(dir, "proxy"), tree: tree, out: &out, scripts: []string{script}}
	if err := writeProxy(t.Context(), w.proxy, tree); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOPROXY", "off")
	if err := w.play(t.Context(), filepath.Join(dir, "strangers"), ""); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}

	// A checkout of the tag has the hashes of its requirements.
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=readonly", "./...")
	build.Dir = filepath.Join(tree.dir, "adapters", "controllerruntime")
	build.Env = append(os.Environ(), "GOPROXY=file://"+w.proxy, "GONOSUMDB=example.com", "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+filepath.Join(dir, "cache"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	sum, err := os.ReadFile(filepath.Join(build.Dir, "go.sum"))
	if err != nil || strings.Count(string(sum), "v0.2.0 h1:") != 2 {
		t.Errorf("%v\n%s", err, sum)
	}
	if _, err := os.Stat(filepath.Join(build.Dir, "LICENSE")); err != nil {
		t.Error(err)
	}
}

// The go command finds each module by its tag in the repository, with the tags of the modules it
// requires.
func TestTags(t *testing.T) {
	r := repository(t)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "m")
		t.Setenv("GIT_"+who+"_EMAIL", "m@example.com")
	}
	before, err := r.git(t.Context(), "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.out = &out
	if err := r.tag(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "/v0.2.0\n    git push origin v0.2.0\n") {
		t.Errorf("the tag that starts the workflow is not pushed on its own:\n%s", out.String())
	}
	tags, err := r.git(t.Context(), "tag", "--points-at", "v0.2.0")
	if err != nil || string(tags) != "adapters/clientgo/v0.2.0\nadapters/controllerruntime/v0.2.0\ncmd/informer-bench/v0.2.0\ncmd/informer-debug/v0.2.0\nenvtest/v0.2.0\ntest/conformance/v0.2.0\nv0.2.0\n" {
		t.Errorf("got %q, %v", tags, err)
	}
	changed, err := r.git(t.Context(), "diff", "--name-only", "HEAD", "v0.2.0")
	if err != nil || strings.Contains(string(changed), ".go\n") || strings.Contains(string(changed), "test/real") {
		t.Errorf("got %q, %v", changed, err)
	}
	mod, err := r.git(t.Context(), "show", "adapters/controllerruntime/v0.2.0:adapters/controllerruntime/go.mod")
	if err != nil || strings.Contains(string(mod), "replace") || !strings.Contains(string(mod), "example.com/mill/adapters/clientgo v0.2.0") {
		t.Errorf("%v\n%s", err, mod)
	}
	after, err := r.git(t.Context(), "rev-parse", "HEAD")
	status, serr := r.git(t.Context(), "status", "--porcelain")
	if err != nil || serr != nil || string(after) != string(before) || len(status) > 0 {
		t.Errorf("HEAD was %s and is %s\n%s", before, after, status)
	}
	if err := r.tag(t.Context()); err == nil {
		t.Error("a version was tagged twice")
	}

	// The artifacts of the tag are those of the commit that was tagged.
	from, err := r.tree(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r.revision = "v0.2.0"
	tagged, err := r.tree(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !tagged.time.Equal(from.time) {
		t.Errorf("tagged at %s, committed at %s", tagged.time, from.time)
	}
	if diff, err := exec.CommandContext(t.Context(), "diff", "-r", from.dir, tagged.dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// A failing script fails the rehearsal, and its output is shown.
func TestFailingScriptFailsTheRehearsal(t *testing.T) {
	r := repository(t)
	dir := t.TempDir()
	tree, err := r.tree(t.Context(), filepath.Join(dir, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"fails": "exec go version\nstdout 'go0.9'\n",
		"ends":  "until 'never said' go version\n",
		"block": "block README.md 2 main.go\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name+".txtar")
			write(t, file, script)
			var out strings.Builder
			w := world{version: r.version, proxy: filepath.Join(dir, "proxy"), tree: tree, out: &out, scripts: []string{file}}
			if err := w.play(t.Context(), t.TempDir(), ""); err == nil || !strings.Contains(out.String(), "stranger "+name+" FAILED") {
				t.Errorf("got %v\n%s", err, &out)
			}
		})
	}
}

// A replaced directory that is not released would be missing for users.
func TestRequiredModulesMustBeReleased(t *testing.T) {
	r := repository(t)
	mod := filepath.Join(r.repo, "adapters", "clientgo", "go.mod")
	text, err := os.ReadFile(mod)
	if err != nil {
		t.Fatal(err)
	}
	write(t, mod, string(text)+"\nrequire example.com/mill/test/real v0.0.0\n\nreplace example.com/mill/test/real => ../../test/real\n")
	commit(t, r, "status")
	if _, err := r.tree(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "test/real with a directory that is not released") {
		t.Errorf("got %v", err)
	}
}

func TestChangesOfTheAPI(t *testing.T) {
	r := repository(t)
	compare := func() (string, error) {
		t.Helper()
		var out strings.Builder
		r.out = &out
		tree, err := r.tree(t.Context(), filepath.Join(t.TempDir(), "tree"))
		if err != nil {
			t.Fatal(err)
		}
		err = r.compareAPI(t.Context(), tree, filepath.Join(t.TempDir(), "last"))
		return out.String(), err
	}
	if said, err := compare(); err != nil || !strings.Contains(said, "no version has been tagged before") {
		t.Errorf("got %v\n%s", err, said)
	}
	commit(t, r, "tag", "v0.1.0")
	if _, err := r.git(t.Context(), "tag", "v9.0.0"); err != nil { // an earlier tag
		t.Fatal(err)
	}
	write(t, filepath.Join(r.repo, "mill.go"), "package mill\n\nfunc Wheel() string { return \"turns\" }\n\nfunc Race() {}\n")
	commit(t, r, "status")
	if said, err := compare(); err != nil || !strings.Contains(said, "mill: 1 changes since v0.1.0, 0 of them incompatible") || !strings.Contains(said, "Race: added") {
		t.Errorf("got %v\n%s", err, said)
	}
	write(t, filepath.Join(r.repo, "mill.go"), "package mill\n\nfunc Wheel(turns int) string { return \"turns\" }\n")
	commit(t, r, "status")
	if said, err := compare(); err != nil || !strings.Contains(said, "Wheel: changed from") {
		t.Errorf("a new minor version may do that: %v\n%s", err, said)
	}
	r.version = "v0.1.1"
	if said, err := compare(); err == nil || !strings.Contains(err.Error(), "raise the minor version") {
		t.Errorf("got %v\n%s", err, said)
	}
}

func TestAnnouncedBreaks(t *testing.T) {
	for _, test := range []struct {
		old, now string
		want     bool
	}{
		{"v0.1.0", "v0.1.1", false}, {"v0.1.0", "v0.2.0", true}, {"v0.9.0", "v1.0.0", true},
		{"v1.0.0", "v1.1.0", false}, {"v1.9.0", "v2.0.0", true},
	} {
		if got := announces(test.old, test.now); got != test.want {
			t.Errorf("%s after %s: got %v", test.now, test.old, got)
		}
	}
}

func TestCommandLinesThatAreRefused(t *testing.T) {
	for _, args := range [][]string{{}, {"rehearse"}, {"rehearse", "-version", "0.1.0"}, {"rehearse", "-version", "v0.1"}, {"tree", "-version", "v0.1.0"}, {"publish", "-version", "v0.1.0"}} {
		if err := run(t.Context(), args, t.Output()); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
