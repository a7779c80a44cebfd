package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// TestMain lets the test binary act as the load server, as informer-bench does. With the race
// detector the contestants are built with it too: tests of other modules need the same packages.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		cmd := newRootCommand()
		cmd.SetArgs(os.Args[1:])
		if err := cmd.Execute(); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	race := debug.BuildSetting{Key: "-race", Value: "true"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, race) {
		if err := os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -race")); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestRunMeasures builds Millrace's contestants and the floor, and runs them once in one scenario
// of each script.
func TestRunMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs programs")
	}
	if runtime.GOOS != "linux" {
		t.Skip("clocks are read in the way of Linux")
	}
	path := filepath.Join(t.TempDir(), "results.json")
	var out strings.Builder
	f := runFlags{
		scenarios:   []string{"sync-protobuf", "sync-watchlist", "watch-json", "relist-changed", "workqueue", "manager", "packed-minute", "packed-read", "restart", "million"},
		contestants: []string{results.Millrace, results.MillracePacked, results.Unmarshal, results.Floor}, rounds: 1, objects: 20, seed: 1, json: path,
	}
	require.NoError(t, run(t.Context(), f, &out, t.Output()))
	measured, err := results.Load(path)
	require.NoError(t, err)
	got := map[string]results.Result{}
	for _, r := range measured.Results {
		got[r.Scenario+" "+r.Contestant] = r
	}
	for _, name := range []string{
		"sync-protobuf millrace", "sync-protobuf unmarshal", "sync-protobuf floor", "sync-watchlist millrace", "sync-watchlist floor",
		"watch-json millrace", "watch-json floor", "relist-changed millrace", "workqueue millrace", "manager millrace",
		"packed-minute millrace-packed", "packed-read millrace-packed", "million millrace-packed",
	} {
		require.Contains(t, got, name)
		require.Positive(t, got[name].Metrics["wall_s"].Median, name)
		require.Positive(t, got[name].Metrics["cpu_s"].Median, name)
		require.Positive(t, got[name].Metrics["peak_rss_bytes"].Median, name)
	}
	require.Positive(t, got["sync-protobuf millrace"].Ratio[results.Floor]["cpu_s"])
	require.Contains(t, out.String(), "sync-protobuf: 20 objects")
	require.Contains(t, out.String(), "sync-protobuf: 20 objects, alike 1")
	require.Positive(t, got["packed-read millrace-packed"].Metrics[results.GetOther].Median)
	require.Contains(t, got["packed-minute millrace-packed"].Metrics, results.CollectorCPU)
	require.Positive(t, got["restart millrace-packed"].Metrics[results.FirstCall].Median)
	require.EqualValues(t, 400, got["million millrace-packed"].Params[results.Objects])

	f.scenarios, f.contestants, f.resume = []string{"workqueue", "fanout"}, []string{results.Millrace}, true
	var progress strings.Builder
	require.NoError(t, run(t.Context(), f, &out, &progress))
	require.Contains(t, progress.String(), "workqueue: already in "+path)
	after, err := results.Load(path)
	require.NoError(t, err)
	require.Equal(t, measured.Results, after.Results[:len(measured.Results)])
	require.True(t, after.Has("fanout"))
}

// TestRunTakesAnotherRevision builds the floor twice, from the source tree and
// from the last commit.
func TestRunTakesAnotherRevision(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs programs")
	}
	if runtime.GOOS != "linux" {
		t.Skip("clocks are read in the way of Linux")
	}
	root, err := repository()
	require.NoError(t, err)
	if describe(root) == "" {
		t.Skip("no git repository: there is no other revision")
	}
	var out strings.Builder
	f := runFlags{scenarios: []string{"sync-protobuf"}, contestants: []string{"floor", "floor@HEAD"}, rounds: 2, objects: 20, seed: 1}
	require.NoError(t, run(t.Context(), f, &out, t.Output()))
	require.Contains(t, out.String(), "sync-protobuf: 20 objects: floor against floor@HEAD")
	require.Contains(t, out.String(), "floor against floor@HEAD: ")
	worktrees, err := git(t.Context(), root, "worktree", "list")
	require.NoError(t, err)
	require.NotContains(t, worktrees, "informer-bench-", "the worktree is removed")

	f.contestants = []string{"floor@no-such-revision"}
	require.ErrorContains(t, run(t.Context(), f, &out, t.Output()), "no-such-revision")
}

func TestRunRefusesNonsense(t *testing.T) {
	for want, f := range map[string]runFlags{
		"at least 1":              {rounds: 0, objects: 1},
		"no-such":                 {rounds: 1, objects: 1, scenarios: []string{"no-such"}},
		"contestant":              {rounds: 1, objects: 1, contestants: []string{"nobody"}},
		"none of the contestants": {rounds: 1, objects: 1, contestants: []string{"floor"}, scenarios: []string{"workqueue"}},
		"/no/dir":                 {rounds: 1, objects: 1, json: "/no/dir/results.json"},
		"set --json":              {rounds: 1, objects: 1, resume: true},
	} {
		require.ErrorContains(t, run(t.Context(), f, io.Discard, io.Discard), want)
	}
}
