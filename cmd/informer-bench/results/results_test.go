package results_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

func stat(v float64) results.Stat { return results.Stat{Min: v, Median: v, Max: v} }

func growth(objects int, cpu float64) results.Result {
	return results.Result{
		Scenario: "growth", Contestant: results.Millrace, Params: results.Params{results.Objects: objects},
		Metrics: map[string]results.Stat{results.CPUPerObject: stat(cpu / float64(objects))},
	}
}

func TestSaveAndLoad(t *testing.T) {
	want := &results.Results{
		V:   results.Version,
		Env: results.Env{Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Command: "informer-bench run --rounds 3 > x & y", Rounds: 3, Versions: map[string]string{"client-go": "v0.37.2"}},
		Results: []results.Result{{
			Scenario: "latency", Contestant: results.Millrace, Params: results.Params{results.Handlers: 10},
			Metrics: map[string]results.Stat{results.P99: {Min: 1e-4, Median: 2e-4, Max: 3e-4}},
			Ratio:   map[string]map[string]float64{results.ClientGo: {results.P99: 0.2}},
			Series:  map[string][]results.Point{results.RSSOverTime: {{T: 0.5, V: 1e6}}},
		}},
	}
	path := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, want.Save(path))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(first), `"handlers": 10`)
	require.Contains(t, string(first), "> x & y", "the command is kept readable")
	got, err := results.Load(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, got.Save(path))
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside the file")
}

func TestARunIsContinuedInTheSameEnvironmentOnly(t *testing.T) {
	env := results.Env{CPU: "fast", Cores: 2, OS: "linux", Arch: "amd64", Go: "go1.26.8", Rounds: 5, Versions: map[string]string{"millrace": "a"}}
	for says, change := range map[string]func(*results.Env){
		"the processor was fast and is slow now":            func(e *results.Env) { e.CPU = "slow" },
		"the number of cores was 2 and is 4 now":            func(e *results.Env) { e.Cores = 4 },
		"the system was linux/amd64 and is linux/arm64 now": func(e *results.Env) { e.Arch = "arm64" },
		"the Go version was go1.26.8 and is go1.27.4 now":   func(e *results.Env) { e.Go = "go1.27.4" },
		"the number of rounds was 5 and is 3 now":           func(e *results.Env) { e.Rounds = 3 },
		"the version of millrace was a and is b now":        func(e *results.Env) { e.Versions = map[string]string{"client-go": "x", "millrace": "b"} },
	} {
		before, now := env, env
		change(&now)
		require.EqualError(t, before.Continue(now), says)
	}
	var none results.Env
	require.NoError(t, none.Continue(results.Env{Versions: map[string]string{"client-go": "x"}}))
	require.Equal(t, map[string]string{"client-go": "x"}, none.Versions)

	r := results.Results{Results: []results.Result{growth(1, 2)}}
	require.True(t, r.Has("growth"))
	require.False(t, r.Has("limit"))
}

func TestLoadRefuses(t *testing.T) {
	one := `{"scenario":"a","contestant":"b","params":{"n":1}}`
	for what, c := range map[string]struct{ file, says string }{
		"no JSON":         {"wall 3s", "not a results file"},
		"another version": {`{"v":2}`, "schema version 2"},
		"a later one":     {`{"v":2,"env":"elsewhere","results":{"a":1}}`, "schema version 2"},
		"cut short":       {`{"v":1,"env":{"rounds":3},"resu`, "not a results file"},
		"a zero":          {`{"v":1,"results":[` + one + `,{"scenario":"a","contestant":"b","params":{"n":1,"m":0}}]}`, "appears twice"},
		"no name":         {`{"v":1,"results":[{"scenario":"a"}]}`, "must be set"},
		"one twice":       {`{"v":1,"results":[` + one + `,` + one + `]}`, "a n=1 b appears twice"},
	} {
		path := filepath.Join(t.TempDir(), "r.json")
		require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
		_, err := results.Load(path)
		require.ErrorContains(t, err, c.says, what)
		require.ErrorContains(t, err, path, what)
	}
	_, err := results.Load(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, results.Writable(filepath.Join(t.TempDir(), "r")))
	require.ErrorIs(t, results.Writable(filepath.Join(t.TempDir(), "none", "r")), os.ErrNotExist)
	require.ErrorContains(t, results.Writable(t.TempDir()), "is a directory")
	require.Error(t, (&results.Results{}).Save(filepath.Join(t.TempDir(), "r")), "what could not be loaded is not saved")
}

func TestStatOf(t *testing.T) {
	require.Equal(t, results.Stat{}, results.StatOf(nil))
	require.Equal(t, stat(4), results.StatOf([]float64{4}))
	rounds := []float64{3, 1, 8}
	require.Equal(t, results.Stat{Min: 1, Median: 3, Max: 8}, results.StatOf(rounds))
	require.Equal(t, []float64{3, 1, 8}, rounds, "the rounds stay in order")
	require.Equal(t, results.Stat{Min: 1, Median: 2.5, Max: 8}, results.StatOf([]float64{8, 3, 1, 2}))
}

func TestRatioIsRoundByRound(t *testing.T) {
	got, ok := results.Ratios([]float64{1, 20, 3}, []float64{2, 40, 12})
	require.True(t, ok)
	require.Equal(t, results.Stat{Min: 0.25, Median: 0.5, Max: 0.5}, got)
	for _, bad := range [][2][]float64{{nil, nil}, {{1}, {1, 2}}, {{1, 2}, {1, 0}}} {
		_, ok := results.Ratios(bad[0], bad[1])
		require.False(t, ok, "%v", bad)
	}
}

func TestVerdicts(t *testing.T) {
	ratio := func(metric string, v float64) map[string]map[string]float64 {
		return map[string]map[string]float64{results.ClientGo: {metric: v}}
	}
	r := &results.Results{V: results.Version, Results: []results.Result{
		{Scenario: "sync-protobuf", Contestant: results.Millrace, Ratio: ratio(results.Wall, 0.30)},
		{Scenario: "sync-protobuf", Contestant: results.Millrace, Params: results.Params{results.Hostile: 1}, Ratio: ratio(results.Wall, 0.9)},
		{Scenario: "sync-protobuf", Contestant: results.Millrace, Params: results.Params{results.Alike: 1}, Ratio: ratio(results.Wall, 0.2)},
		{Scenario: "sync-protobuf", Contestant: results.ClientGo, Ratio: ratio(results.Wall, 1)},
		{Scenario: "sync-protobuf", Contestant: results.ClientGoFactory, Ratio: ratio(results.Wall, 0.45)},
		{Scenario: "sync-protobuf", Contestant: results.ClientGoFactory, Params: results.Params{results.Hostile: 1}, Ratio: ratio(results.Wall, 0.9)},
		{Scenario: "sync-protobuf", Contestant: results.ControllerRuntimeCache, Ratio: ratio(results.LivePerObject, 0.4)},
		{Scenario: "sync-protobuf", Contestant: results.ClientGoInformer, Params: results.Params{results.Hostile: 1}, Ratio: ratio(results.CPU, 1.5)},
		{Scenario: "watch-json", Contestant: results.Millrace, Ratio: ratio(results.EventsPerSec, 6)},
		{Scenario: "workqueue", Contestant: results.Millrace, Params: results.Params{results.Workers: 8}, Ratio: ratio(results.WallPerEvent, 0.33),
			Metrics: map[string]results.Stat{results.AllocsPerEvent: stat(1.5)}},
		{Scenario: "late-handler", Contestant: results.Millrace, Metrics: map[string]results.Stat{results.Pause: stat(0.0004)}},
		growth(50_000, 0.4), growth(10_000, 0.1), growth(150_000, 1.95),
	}}
	var got []string
	for _, v := range r.Check(results.Targets()) {
		if v.Row != nil && v.Measured {
			got = append(got, v.String())
		}
	}
	require.Equal(t, []string{
		"sync-protobuf: wall_s: 0.3, want ≤ 0.22 × client-go: missed: 1.36 times the limit",
		"growth objects=150000: cpu_per_object_s: 1.3, want ≤ 1.2 × with the fewest objects: missed: 1.08 times the limit",
		"watch-json: events_per_s: 6, want ≥ 12 × client-go: missed: 0.50 times the limit",
		"workqueue workers=8: wall_per_event_s: 0.33, want ≤ 0.33 × client-go: met",
		"workqueue workers=8: allocs_per_event: 1.5, want ≤ 0.01: missed: 150 times the limit",
		"late-handler: pause_s: 0.0004, want ≤ 1 ms: met",
		"sync-protobuf hostile=1: wall_s: 0.9, want ≤ 1 × client-go: met",
		"sync-protobuf: clientgo+millrace: wall_s: 0.45, want ≤ 0.3 × client-go: missed: 1.50 times the limit",
		"sync-protobuf: controllerruntime+millrace: live_bytes_per_object: 0.4, want ≤ 0.4 × client-go: met",
		"sync-protobuf hostile=1: clientgo+millrace NewInformer: cpu_s: 1.5, want ≤ 1.02 × client-go: missed: 1.47 times the limit",
	}, got)
}

func TestTargetWithoutAMeasurementIsNotMet(t *testing.T) {
	empty := &results.Results{V: results.Version}
	verdicts := empty.Check(results.Targets())
	require.Len(t, verdicts, len(results.Targets()))
	alone := &results.Results{V: results.Version, Results: []results.Result{growth(150_000, 3)}}
	for _, v := range append(verdicts, alone.Check(results.Targets())...) {
		require.False(t, v.Met(), v)
		require.Equal(t, "not measured", v.Outcome())
		require.Zero(t, v.Off())
	}
}

func TestTargetsAreDistinguishable(t *testing.T) {
	seen := map[string]bool{}
	for _, target := range results.Targets() {
		id := target.Scenario + ": " + target.String()
		require.False(t, seen[id], id)
		seen[id] = true
		require.True(t, strings.Contains(target.Metric, "_"), id)
	}
	nothing := results.Verdict{Measured: true, Got: 1}
	require.True(t, math.IsInf(nothing.Off(), 1))
	require.Equal(t, "missed: 1", nothing.Outcome())
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		metric string
		v      float64
		want   string
	}{
		{results.Wall, 2.3149, "2.31 s"},
		{results.Wall, 68.5, "68.5 s"},
		{results.Wall, 0.9996, "1.00 s"},
		{results.Wall, 0, "0 s"},
		{results.P99, 0.0004, "400 µs"},
		{results.CPUPerEvent, 44.06e-6, "44.1 µs"},
		{results.WallPerEvent, 105.2e-9, "105 ns"},
		{results.PeakRSS, 1.254e9, "1.25 GB"},
		{results.LivePerObject, 14600, "14.6 KB"},
		{results.LivePerObject, 999.7, "1.00 KB"},
		{results.HandlerBytes, 512, "512 B"},
		{results.EventsPerSec, 36123, "36.1k/s"},
		{results.EventsPerSec, 410, "410/s"},
		{results.AllocsPerEvent, 9, "9"},
		{results.AllocsPerEvent, 1.25, "1.25"},
		{results.PeakOverSteady, 1.034, "1.03"},
	} {
		require.Equal(t, c.want, results.Format(c.metric, c.v), "%s %v", c.metric, c.v)
	}
}

func TestOrderedPutsTheUnknownLast(t *testing.T) {
	got := results.Ordered(map[string]results.Stat{"b": {}, "a": {}, results.CPU: {}, results.Wall: {}, results.HandlerBytes: {}})
	require.Equal(t, []string{results.Wall, results.CPU, results.HandlerBytes, "a", "b"}, got)
	require.Equal(t, "peak RSS", results.Title(results.PeakRSS))
	require.Equal(t, "a", results.Title("a"))
}
