package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// once fails in its first run only.
const once = `package p

import ("os"; "testing")

func TestUnsteady(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if f, err := os.OpenFile("been.here", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			t.Error("the first time")
		}
	})
}

func TestGood(t *testing.T) {}
`

func TestASecondChance(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	const always = "package p\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"always\") }\n"
	for name, c := range map[string]struct {
		files            map[string]string
		failed, unsteady int
	}{
		"by chance":      {map[string]string{"p/p_test.go": once}, 0, 1},
		"always":         {map[string]string{"p/p_test.go": always}, 1, 0},
		"both":           {map[string]string{"p/p_test.go": once, "q/q_test.go": always}, 1, 1},
		"with a panic":   {map[string]string{"p/p_test.go": once, "q/q_test.go": "package p\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { panic(\"oh no\") }\n"}, 3, 0},
		"a broken build": {map[string]string{"p/p_test.go": once, "q/q_test.go": "package p\n\nnonsense\n"}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["go.mod"] = "module example.com/x\n\ngo 1.26.0\n"
			j := job{dir: tree(t, c.files), flags: []string{"-vet=off"}, packages: []string{"./..."}}
			var out strings.Builder
			tally := newTally(&out, "example.com/x/")
			tally.goTest(t.Context(), j)
			tally.again(t.Context(), j)
			tally.summary(0, nil, nil)
			require.Len(t, tally.failed, c.failed, out.String())
			require.Len(t, tally.unsteady, c.unsteady, out.String())
			if c.unsteady > 0 {
				require.Contains(t, out.String(), "  p TestUnsteady: failed, then passed three times alone\n")
				require.Contains(t, out.String(), "the first time", "what it said stays to be read")
			}
		})
	}
}

func TestNoSecondChanceForARaceOrForMany(t *testing.T) {
	var out strings.Builder
	tally := newTally(&out, "")
	require.NoError(t, tally.read(strings.NewReader(`
{"Action":"output","Package":"p","Test":"TestBad","Output":"WARNING: DATA RACE\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"fail","Package":"p","Elapsed":1}
`)))
	tally.again(t.Context(), job{dir: t.TempDir()})
	require.Len(t, tally.failed, 1)

	tally = newTally(&out, "")
	for _, name := range []string{"TestA", "TestB", "TestC", "TestD", "TestE"} {
		tally.take(event{Action: "fail", Package: "p", Test: name})
	}
	out.Reset()
	tally.again(t.Context(), job{dir: t.TempDir()})
	require.Len(t, tally.failed, 5)
	require.Empty(t, out.String(), "nothing was run")
}
