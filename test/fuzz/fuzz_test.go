package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutputOfGoTestIsParsed(t *testing.T) {
	execs, said := follow(strings.NewReader(`fuzz: elapsed: 0s, gathering baseline coverage: 0/40 completed
fuzz: elapsed: 3s, execs: 12345 (4114/sec), new interesting: 4 (total: 30)
fuzz: elapsed: 5s, execs: 20000 (3800/sec), new interesting: 4 (total: 30)
--- FAIL: FuzzX (5.00s)
    Failing input written to testdata/fuzz/FuzzX/1`))
	require.Equal(t, 20000, execs)
	require.Contains(t, said, "Failing input written")
}

// Go 1.26 sometimes reports the end of the fuzz time as a failure.
func TestEndOfTheFuzzTimeIsNotAFailure(t *testing.T) {
	require.Regexp(t, raced, `fuzz: elapsed: 8s, execs: 228650 (0/sec), new interesting: 30 (total: 36)
--- FAIL: FuzzX (8.09s)
    context deadline exceeded
FAIL
`)
	require.NotRegexp(t, raced, `--- FAIL: FuzzX (5.00s)
    --- FAIL: FuzzX (0.00s)
        x_test.go:7: context deadline exceeded

    Failing input written to testdata/fuzz/FuzzX/1
FAIL
`)
}

// The counts of several runs are added.
func TestCountsAreAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "total")
	for range 2 {
		c, err := readCounts(path)
		require.NoError(t, err)
		c.add("github.com/millrace-dev/millrace/wire FuzzX", ran{1_234_567, 90 * time.Second})
		c.add("github.com/millrace-dev/millrace/rest FuzzY", ran{1, time.Second})
		require.NoError(t, c.write(path))
	}
	c, err := readCounts(path)
	require.NoError(t, err)
	require.Equal(t, `| package | target | inputs | time |
|---|---|---:|---:|
| `+"`rest` | `FuzzY`"+` | 2 | 2s |
| `+"`wire` | `FuzzX`"+` | 2,469,134 | 3m0s |
| all | | 2,469,136 | 3m2s |
`, c.table())
}

// A module with two targets: one that fails only for an input that is found by coverage and not by
// chance, and a second one that never fails.
func TestTargetsAreFuzzed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/hay")))
	t.Chdir(dir)
	w, err := newWorkbench(t.Context())
	require.NoError(t, err)
	w.close()
	forget := func() { require.NoError(t, os.RemoveAll(w.reached("example.com/hay"))) }
	forget() // the corpus of another run
	t.Cleanup(forget)
	total := filepath.Join(dir, "total")
	failed, err := run(t.Context(), 0, 1_000_000, total, nil)
	require.NoError(t, err)
	require.True(t, failed)
	c, err := readCounts(total)
	require.NoError(t, err)
	require.GreaterOrEqual(t, c["example.com/hay FuzzNothing"].execs, 500_000)
	inputs, err := filepath.Glob(filepath.Join(dir, "testdata", "fuzz", "FuzzAHaystack", "*"))
	require.NoError(t, err)
	require.Len(t, inputs, 1)
}

func TestTargetsAreFound(t *testing.T) {
	targets, err := find(t.Context(), []string{"../../wire", "../../webhook"})
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.Contains(t, targets, target{"github.com/millrace-dev/millrace/wire", filepath.Join(root, "wire"), "FuzzListJSON"})
	require.Contains(t, targets, target{"github.com/millrace-dev/millrace/webhook", filepath.Join(root, "webhook"), "FuzzConversion"})
}
