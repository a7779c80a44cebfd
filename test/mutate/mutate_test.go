package main

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPatchesFit finds patches that no longer apply.
func TestPatchesFit(t *testing.T) {
	all, err := readAll(patches)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 60)
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "LAWS.md"))
	require.NoError(t, err)
	laws := map[string]bool{"one leader": true} // the guarantee of leaderelection
	for _, law := range regexp.MustCompile(`\*\*([LWCDSO]\d\d) `).FindAllSubmatch(text, -1) {
		laws[string(law[1])] = true
	}
	said := map[string]string{}
	for _, p := range all {
		require.True(t, laws[p.law], "%s breaks %q, which is no law", p.name, p.law)
		require.Empty(t, said[p.text], "%s says the same as another patch", p.name)
		said[p.text] = p.name
		for _, f := range p.files {
			source, err := os.ReadFile(filepath.Join(root, f.path))
			require.NoError(t, err, p.name)
			patched, err := f.apply(string(source))
			require.NoError(t, err, p.name)
			require.NotEqual(t, string(source), patched, p.name)
			_, err = parser.ParseFile(token.NewFileSet(), f.path, patched, parser.SkipObjectResolution)
			require.NoError(t, err, p.name)
		}
	}
}

func TestApply(t *testing.T) {
	const source = "a\nb\nc\nb\nd\n"
	for diff, want := range map[string]string{
		" a\n-b\n+x\n": "a\nx\nc\nb\nd\n",
		" b\n+x\n d\n": "a\nb\nc\nb\nx\nd\n",
		"-b\n+x\n":     "matches in 2 positions",
		" a\n-c\n":     "no longer fits",
		"-\n":          "no longer fits",
	} {
		p, err := parse("it", "L01: it is broken\n--- a/f.go\n+++ b/f.go\n@@ -1 +1 @@\n"+diff)
		require.NoError(t, err)
		require.Equal(t, []string{"it", "L01", "it is broken", "f.go"}, []string{p.name, p.law, p.text, p.files[0].path})
		got, err := p.files[0].apply(source)
		if err != nil {
			got = err.Error()
		}
		require.Contains(t, got, want)
	}
	for _, text := range []string{"no law\n", "L01: nothing\n", "L01: lines outside\nx\n", "L01: odd\n+++ b/f.go\n@@\n?x\n"} {
		_, err := parse("it", text)
		require.Error(t, err, text)
	}
}

func TestOutputOfTheTestsIsParsed(t *testing.T) {
	out := []byte("seed 3\nseed 4\n--- FAIL\n seed 4: L03: a handler hears\n L05: and L03: again")
	require.Equal(t, 5, seedIn(out, 0))
	require.Equal(t, 2, seedIn(out, 3))
	require.Zero(t, seedIn([]byte("nothing"), 0))
	require.Equal(t, 2, seedIn([]byte("=== RUN   TestIt\n=== RUN   TestIt/seed_7\n=== RUN   TestIt/seed_9\n--- FAIL: TestIt/seed_9\n"), 0))
	require.Equal(t, "L03 L05", complaintIn(out))
	require.Equal(t, "deadlock", complaintIn([]byte("panic: deadlock: all goroutines")))
	require.Equal(t, "panic", complaintIn([]byte("panic: nil map")))

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	err := run(stopped, options{}, "queue", 1, "")
	require.ErrorContains(t, err, "context canceled")

	var written bytes.Buffer
	p := &patch{name: "one", law: "L01", text: "it is broken"}
	err = sum(&written, []result{{patch: p, found: true}, {patch: p}, {patch: p, err: errors.New("build: no")}})
	require.ErrorContains(t, err, "1 breakages could not be tried")
	require.Contains(t, written.String(), "one (L01) survived: it is broken\none: build: no\n1 of 3 found")
	require.ErrorContains(t, sum(&written, []result{{patch: p, found: true}, {patch: p}}), "1 breakages survived")
	require.NoError(t, sum(&written, []result{{patch: p, found: true}}))
}

// TestFailingTestFindsNoBreakage has a test and schedules that fail without a breakage: then no
// breakage is played.
func TestFailingTestFindsNoBreakage(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                             "module github.com/millrace-dev/millrace\n\ngo 1.26\n",
		"lib/lib.go":                         "package lib\n\nfunc F() int {\n\treturn 1\n}\n",
		"lib/lib_test.go":                    "package lib\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { t.Fatal(\"the disk is full\") }\n",
		"test/simulation/simulation_test.go": "package simulation\n\nimport (\n\t\"flag\"\n\t\"testing\"\n\n\t_ \"github.com/millrace-dev/millrace/lib\"\n)\n\nvar _, _, _ = flag.Int(\"schedules\", 0, \"\"), flag.Int(\"from\", 0, \"\"), flag.Duration(\"hang\", 0, \"\")\n\nfunc TestSchedules(t *testing.T) { panic(\"cannot listen\") }\n",
	} {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for head, want := range map[string]string{
		"L01: it is broken\ntest ./lib TestF: it is quick\n": "the disk is full",
		"L01: it is broken\n":                                "cannot listen",
	} {
		p, err := parse("it", head+"--- a/lib/lib.go\n+++ b/lib/lib.go\n@@ -3 +3 @@\n func F() int {\n-\treturn 1\n+\treturn 2\n }\n")
		require.NoError(t, err)
		w, err := newWorkbench(t.Context(), options{root: root, schedules: 1, timeout: time.Minute}, t.TempDir(), []*patch{p})
		require.NoError(t, err)
		require.ErrorContains(t, w.sound(t.Context(), []*patch{p}), want)
	}
}

// TestPage plays two of three breakages again and keeps the row of the third.
func TestPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	one, two, three := &patch{name: "one", law: "L01", text: "a|b"}, &patch{name: "two", law: "L02", text: "c"}, &patch{name: "three", law: "L03", text: "d"}
	one.schedules, two.schedules, three.test = simulation, unit{pack: "./pair", name: "TestTwo"}, unit{"./queue", "TestIt", "it is quick"}
	all := []*patch{one, two, three}
	require.NoError(t, writePage(file, all, []result{{patch: one, found: true, after: 7, complaint: "L01"}, {patch: two}}))
	require.NoError(t, writePage(file, all, []result{{patch: two, found: true, after: 1, complaint: "hangs"}, {patch: three, found: true}}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "|---|---|---|---|\n")
	require.Equal(t, "| one | L01 | 7 schedules, L01 | a\\|b |\n| two | L02 | 1 schedule of `TestTwo` of pair, hangs | c |\n"+
		"| three | L03 | `TestIt` of queue: it is quick | d |\n", table)
}
