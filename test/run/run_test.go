package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

// TestNothingIsHidden runs go test on packages that end in every possible way.
func TestNothingIsHidden(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	const head = "package p\n\nimport (\"os\"; \"testing\")\n\nvar _ = os.Exit\n\n"
	dir := tree(t, map[string]string{
		"go.mod": "module example.com/x\n\ngo 1.26.0\n",
		"fails/p_test.go": head + `
func TestGood(t *testing.T) { t.Log("nobody reads this") }
func TestBad(t *testing.T) {
	t.Run("part", func(t *testing.T) { t.Error("the part is broken") })
	t.Run("other", func(t *testing.T) { t.Log("nor this") })
}
func TestAway(t *testing.T) { t.Log("looks around"); t.Skip("no disk:\nneeds two") }
`,
		"broken/p_test.go":  head + "func TestIt(t *testing.T) { undefined() }\n",
		"exits/p_test.go":   head + "func TestIt(t *testing.T) { println(\"last words\"); os.Exit(3) }\n",
		"quits/p_test.go":   head + "func TestIt(t *testing.T) { t.Log(\"all is well\") }\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(4) }\n",
		"panics/p_test.go":  head + "func TestIt(t *testing.T) { panic(\"oh no\") }\n",
		"cycle/p.go":        "package cycle\n\nimport _ \"example.com/x/cycle\"\n",
		"untested/p.go":     "package untested\n",
		"good/good_test.go": head + "func TestIt(t *testing.T) {}\n",
	})
	var out strings.Builder
	tally := newTally(&out, "example.com/x/")
	tally.goTest(t.Context(), job{dir: dir, flags: []string{"-vet=off"}, packages: []string{"./..."}})
	tally.summary(0, []string{"bench/floor"}, []string{"test/late"})
	got := out.String()
	for _, want := range []string{
		"the part is broken", "--- FAIL: TestBad/part", "undefined: undefined", "last words", "panic: oh no", "all is well",
		"import cycle", "ok  \texample.com/x/good",
		"modules without tests: bench/floor",
		"make test-all adds: test/late\n",
		"  fails TestAway: no disk: needs two\n",
		"  fails TestBad/part\n", "  exits TestIt (did not finish)\n", "  quits (none of its tests failed)\n",
		"  broken (did not build)\n", "  panics TestIt\n",
	} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, got, "nobody reads this")
	require.NotContains(t, got, "nor this")
	require.NotContains(t, got, "=== RUN")
	require.Equal(t, 1, strings.Count(got, "the part is broken"), got)
	require.Regexp(t, `\n\n4 passed, \d failed, 1 skipped\n$`, got)
	require.Len(t, tally.failed, 7, "part, TestBad, exits, quits, broken, panics, cycle: %q", tally.failed)
}

func TestRunWithoutFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	dir := tree(t, map[string]string{
		"go.mod":          "module example.com/x\n\ngo 1.26.0\n",
		"good/it_test.go": "package good\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { t.Log(\"quiet\") }\n",
	})
	var out strings.Builder
	tally := newTally(&out, "example.com/")
	tally.goTest(t.Context(), job{dir: dir, packages: []string{"./..."}})
	tally.summary(0, nil, nil)
	require.Zero(t, tally.failures())
	require.NotContains(t, out.String(), "quiet")
	require.True(t, strings.HasSuffix(out.String(), "\n\n1 passed, 0 failed, 0 skipped\n"), out.String())

	tally.goTest(t.Context(), job{dir: dir, flags: []string{"-no-such-flag"}, packages: []string{"./..."}})
	require.Equal(t, 1, tally.failures(), "go test failed, though no package did")
	tally.goTest(t.Context(), job{dir: filepath.Join(dir, "none"), packages: []string{"./..."}})
	require.Equal(t, 2, tally.failures(), "go test could not be started")
}

// A race is reported in whichever test is running, even if it passes.
func TestRaceIsShownWhereverItIsReported(t *testing.T) {
	var out strings.Builder
	tally := newTally(&out, "")
	require.NoError(t, tally.read(strings.NewReader(`
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"WARNING: DATA RACE\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"run","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    race detected\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1s\n"}
{"Action":"fail","Package":"p","Elapsed":1}
not an event
`)))
	require.Equal(t, "\n    race detected\nWARNING: DATA RACE\nFAIL\tp\t1s\nnot an event\n", out.String())
}

func TestAKilledPackageFailed(t *testing.T) {
	var out strings.Builder
	tally := newTally(&out, "")
	require.NoError(t, tally.read(strings.NewReader(`{"Action":"run","Package":"p","Test":"TestLong"}
{"Action":"output","Package":"p","Test":"TestLong","Output":"so far, so good\n"}
`)))
	require.Equal(t, []failure{{what: "p TestLong (did not finish)"}}, tally.failed)
	require.Contains(t, out.String(), "so far")
}

func TestPlan(t *testing.T) {
	const test = "package p\n"
	dir := tree(t, map[string]string{
		"go.mod":                 "module example.com/x\n",
		"a/a_test.go":            test,
		"slow/race_on_test.go":   "//go:build race\n\npackage p\n",
		"slow/race_off_test.go":  "// Some words.\n\n//go:build !race\n\npackage p\n",
		"other/linux_test.go":    "//go:build " + runtime.GOOS + "\n\npackage p\n",
		"nested/go.mod":          "module example.com/x/nested\n",
		"nested/n_test.go":       test,
		"nested/deep/go.mod":     "module example.com/x/nested/deep\n",
		"nested/deep/main.go":    test,
		"testdata/go.mod":        "module none\n",
		"testdata/t_test.go":     test,
		".git/go.mod":            "module none\n",
		"nested/race/r_test.go":  "//go:build !race\n\npackage p\n",
		"nested/race/r2_test.go": test,
	})
	t.Chdir(dir)
	require.Equal(t, "example.com/x", modulePath("."))
	s, err := plan(".", []string{"-race", "-vet=off"}, nil, nil)
	require.NoError(t, err)
	var got []string
	for _, j := range s.jobs {
		got = append(got, j.String())
	}
	require.Equal(t, []string{
		"go test -race -vet=off ./slow ./...",
		"go test -vet=off ./slow",
		"go -C nested test -race -vet=off ./race ./...",
		"go -C nested test -vet=off ./race",
	}, got)
	require.Equal(t, []string{filepath.Join("nested", "deep")}, s.without)

	s, err = plan(".", []string{"-vet=off"}, nil, nil)
	require.NoError(t, err)
	require.Len(t, s.jobs, 2, "without the race detector once is enough")

	flags, later := cutLater([]string{"-later=nested", "-race", "-vet=off"})
	s, err = plan(".", flags, nil, later)
	require.NoError(t, err)
	require.Equal(t, []job{{dir: ".", flags: []string{"-race", "-vet=off"}, packages: []string{"./slow", "./..."}}}, s.jobs)
	require.Equal(t, []string{"nested", "slow without the race detector"}, s.later)
	_, err = plan(".", flags, nil, []string{"nowhere"})
	require.EqualError(t, err, "-later: nowhere is not a module with tests")

	flags, packages := split([]string{"-race", "-run=X", "./a", "./slow"})
	s, err = plan(".", flags, packages, nil)
	require.NoError(t, err)
	require.Empty(t, s.without)
	require.Equal(t, []job{{dir: ".", flags: []string{"-race", "-run=X"}, packages: []string{"./a", "./slow"}}}, s.jobs)

	_, err = plan("testdata/none", nil, nil, nil)
	require.Error(t, err)
}

// Modules that run concurrently are counted as if they had run one after the other.
func TestModulesAtATime(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	t.Setenv(secondChance, "")
	const test = "package p\n\nimport \"testing\"\n\n"
	dir := tree(t, map[string]string{
		"a/go.mod":    "module example.com/x/a\n\ngo 1.26.0\n",
		"a/a_test.go": test + "func TestGood(t *testing.T) {}\nfunc TestNot(t *testing.T) { t.Skip(\"no disk\") }\n",
		"b/go.mod":    "module example.com/x/b\n\ngo 1.26.0\n",
		"b/b_test.go": test + "func TestBad(t *testing.T) { t.Error(\"it is broken\") }\n",
		"c/go.mod":    "module example.com/x/c\n\ngo 1.26.0\n",
		"c/c_test.go": test + "func TestBad(t *testing.T) { t.Error(\"it is broken\") }\n",
	})
	var jobs []job
	for _, name := range []string{"a", "b", "c"} {
		jobs = append(jobs, job{dir: filepath.Join(dir, name), flags: []string{"-vet=off"}, packages: []string{"./..."}})
	}
	var out strings.Builder
	tally := newTally(&lines{to: &out}, "example.com/x/")
	tally.runAll(t.Context(), jobs, 2)
	tally.summary(0, nil, nil)
	require.Equal(t, []failure{{"b TestBad", "example.com/x/b", "TestBad"}, {"c TestBad", "example.com/x/c", "TestBad"}}, tally.failed)
	require.Equal(t, 2, strings.Count(out.String(), "it is broken"), out.String())
	require.Contains(t, out.String(), "ran 3 packages in 0s;")
	require.Contains(t, out.String(), "\nslowest tests: a TestGood 0s\n")
	require.True(t, strings.HasSuffix(out.String(), "\n\n1 passed, 2 failed, 1 skipped\n"), out.String())
}

// A test that one job skips and another passes has run.
func TestTestSkippedInOneRunIsNotSkipped(t *testing.T) {
	tally := newTally(io.Discard, "")
	tally.take(event{Action: "skip", Package: "p", Test: "TestA"})
	tally.take(event{Action: "skip", Package: "p", Test: "TestB"})
	tally.take(event{Action: "pass", Package: "p", Test: "TestA"})
	require.Equal(t, []string{"p TestB: no reason given"}, tally.onlySkipped())
}
