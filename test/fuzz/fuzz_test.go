package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatGoTestPrintsIsCounted(t *testing.T) {
	execs, said := follow(strings.NewReader(`fuzz: elapsed: 0s, gathering baseline coverage: 0/40 completed
fuzz: elapsed: 3s, execs: 12345 (4114/sec), new interesting: 4 (total: 30)
fuzz: elapsed: 5s, execs: 20000 (3800/sec), new interesting: 4 (total: 30)
--- FAIL: FuzzX (5.00s)
    Failing input written to testdata/fuzz/FuzzX/1`))
	require.Equal(t, 20000, execs)
	require.Contains(t, said, "Failing input written")
}

// Many runs make one number.
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

func TestTargetsAreFound(t *testing.T) {
	targets, err := find(t.Context(), []string{"../../wire", "../../webhook"})
	require.NoError(t, err)
	require.Contains(t, targets, target{"github.com/millrace-dev/millrace/wire", "FuzzListJSON"})
	require.Contains(t, targets, target{"github.com/millrace-dev/millrace/webhook", "FuzzConversion"})
}
