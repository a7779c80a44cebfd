package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

var update = flag.Bool("update", false, "write the report of the test data anew, to be looked at and committed")

// golden is where the report of testdata/results.json is. All figures in it
// are made up.
const golden = "testdata/report"

func loaded(t *testing.T) *results.Results {
	t.Helper()
	r, err := results.Load("testdata/results.json")
	require.NoError(t, err)
	return r
}

// files reads all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, relErr := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(content)
		return errors.Join(err, relErr)
	}))
	return all
}

func TestReportIsAsCommitted(t *testing.T) {
	if *update {
		_, err := write(loaded(t), golden)
		require.NoError(t, err)
	}
	dir := t.TempDir()
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"testdata/results.json", "--out", dir})
	require.NoError(t, cmd.Execute())

	want, got := files(t, golden), files(t, dir)
	for name := range want {
		require.Contains(t, got, name)
	}
	for name, content := range got {
		require.Equal(t, want[name], content, "%s: if this is meant, go test -update, and look at it", name)
		require.Contains(t, out.String(), filepath.Join(dir, filepath.FromSlash(name)), "what is written is named")
	}
	require.Contains(t, got[report], "TEST DATA")
}

func TestChartsAreSoundAndLinked(t *testing.T) {
	sections, err := sectionsOf(loaded(t))
	require.NoError(t, err)
	report := string(markdown(loaded(t), sections, nil))
	seen := map[string]bool{}
	for _, s := range sections {
		for _, c := range s.charts {
			require.False(t, seen[c.name], "%s is there twice", c.name)
			seen[c.name] = true
			require.Contains(t, report, "]("+c.link()+")")
			decoder := xml.NewDecoder(bytes.NewReader(c.svg))
			for {
				if _, err := decoder.Token(); err == io.EOF {
					break
				} else {
					require.NoError(t, err, c.name)
				}
			}
			require.NotContains(t, string(c.svg), "NaN", c.name)
			require.NotContains(t, string(c.svg), "Inf", c.name)
			require.NotContains(t, string(c.svg), "#-", "%s: a colour that there is not", c.name)
			require.Less(t, len(c.svg), 20_000, c.name)
		}
	}
	for _, name := range []string{"sync-protobuf.svg", "growth-cpu-per-object-s.svg", "slow-handler-rss-bytes.svg"} {
		require.True(t, seen[name], "%s in %v", name, seen)
	}
}

func TestChartsOfAnEarlierReportAreRemoved(t *testing.T) {
	dir := t.TempDir()
	old, other := filepath.Join(dir, "bench", "out", "charts", "old.svg"), filepath.Join(dir, "bench", "out", "charts", "other.png")
	require.NoError(t, os.MkdirAll(filepath.Dir(old), 0o755))
	require.NoError(t, os.WriteFile(old, nil, 0o644))
	require.NoError(t, os.WriteFile(other, nil, 0o644))
	_, err := write(loaded(t), dir)
	require.NoError(t, err)
	require.NoFileExists(t, old)
	require.FileExists(t, other)
}

func TestRatesAreInverted(t *testing.T) {
	sections, err := sectionsOf(loaded(t))
	require.NoError(t, err)
	for _, s := range sections {
		if s.scenario != "watch-protobuf" {
			continue
		}
		b := s.bars()[0]
		require.Equal(t, "time for events", b.label)
		require.InDelta(t, 1/5.0, b.ratio, 1e-9, "five times the events")
		return
	}
	t.Fatal("the scenario was not found")
}

func TestContestantsHaveOneOrder(t *testing.T) {
	var s section
	for _, name := range []string{"somebody", results.Floor, results.ClientGo, results.Millrace} {
		s.add(&results.Result{Contestant: name})
	}
	var got []string
	for _, row := range s.groups[0].rows {
		got = append(got, row.Contestant)
	}
	require.Equal(t, []string{results.Millrace, results.ClientGo, results.Floor, "somebody"}, got)
}

func TestControllersAreComparedWithTheirPeer(t *testing.T) {
	ratio := map[string]map[string]float64{results.ControllerRuntime: {results.PeakRSS: 0.3}}
	r := &results.Results{V: results.Version, Results: []results.Result{
		{Scenario: "reconcile", Contestant: results.ControllerRuntime, Metrics: map[string]results.Stat{results.PeakRSS: {Min: 10, Median: 10, Max: 10}}},
		{Scenario: "reconcile", Contestant: results.Millrace, Metrics: map[string]results.Stat{results.PeakRSS: {Min: 3, Median: 3, Max: 3}}, Ratio: ratio},
	}}
	sections, err := sectionsOf(r)
	require.NoError(t, err)
	require.Equal(t, []bar{{label: "peak RSS", contestant: results.Millrace, ratio: 0.3}}, sections[0].bars())
	require.Equal(t, "reconcile: ratios to controller-runtime", sections[0].charts[0].alt)
	text := string(markdown(r, sections, nil))
	require.Contains(t, text, "| figure | millrace | controller-runtime |\n|---|---|---|\n| peak RSS | 3 B<br>× 0.3 | 10 B |")
}

func TestNothingToReport(t *testing.T) {
	r := &results.Results{V: results.Version}
	sections, err := sectionsOf(r)
	require.NoError(t, err)
	require.Empty(t, sections)
	text := string(markdown(r, sections, nil))
	require.Empty(t, figures(sections))
	require.Empty(t, picture(nil, &r.Env), "a picture of nothing")
	require.Contains(t, text, "Not measured in this run")
}

func TestTheFirstPageHasARowForEachListedHeadline(t *testing.T) {
	listed := 0
	for _, h := range headlines() {
		if h.listed {
			listed++
		}
	}
	require.Equal(t, 10, listed)

	r := loaded(t)
	sections, err := sectionsOf(r)
	require.NoError(t, err)
	all := figures(sections)
	byWhat := map[string]figure{}
	listed = 0
	for _, f := range all {
		byWhat[f.what] = f
		if f.listed {
			listed++
		}
	}
	require.InDelta(t, 50_000, sections[0].groups[0].params[results.Objects], 0)
	require.NotEqual(t, byWhat["list Pods"].ours, byWhat["list Pods in which nothing repeats"].ours)

	text := string(markdown(r, sections, picture(all, &r.Env)))
	first, rest, _ := strings.Cut(text, "\n## ")
	require.Contains(t, first, "]("+linkTo(overview)+")")
	require.Equal(t, listed+2, strings.Count(first, "\n|"), "a row for each, after two of the head")
	before, targets, _ := strings.Cut(rest, "\n## Targets of the project\n")
	for _, verdict := range []string{": met", "| met", "missed", "≤", "≥"} {
		require.NotContains(t, first+before, verdict)
	}
	met, missed := 0, 0
	for _, v := range r.Check(results.Targets()) {
		if v.Measured && v.Met() {
			met++
		} else if v.Measured {
			missed++
		}
	}
	require.Contains(t, targets, fmt.Sprintf("%d targets are met, %d are missed", met, missed))
	require.Equal(t, missed, strings.Count(targets, "**missed"))
	require.Equal(t, met, strings.Count(targets, "| met |"))
	require.Contains(t, targets, "| [sync-protobuf](#sync-protobuf)<br>hostile=0 | wall of clientgo+millrace | 900 ms | 0.45 | ≤ 0.3 × client-go | **missed: 1.50 times the limit.**")
	require.Contains(t, targets, "| CPU an object | 9 µs | 1.12 | ≤ 1.2 × with the fewest objects | met |")
}

// A headline that no scenario measures would never be seen to be missing.
func TestEveryHeadlineIsMeasured(t *testing.T) {
	r, err := results.Load("../out/results.json")
	require.NoError(t, err)
	sections, err := sectionsOf(r)
	require.NoError(t, err)
	require.Len(t, figures(sections), len(headlines()))
}

func TestThePictureIsSound(t *testing.T) {
	r := loaded(t)
	sections, err := sectionsOf(r)
	require.NoError(t, err)
	r.Env.CPU = "<&>"
	drawing := picture(figures(sections), &r.Env)
	require.NoError(t, xml.Unmarshal(drawing, new(struct{})))
	require.Contains(t, string(drawing), "list Pods")
	require.NotContains(t, string(drawing), "NaN")
	require.Contains(t, string(drawing), "prefers-color-scheme:dark")
}

func TestOddResultsAreReported(t *testing.T) {
	zero := map[string]results.Stat{results.Wall: {}}
	r := &results.Results{V: results.Version, Results: []results.Result{
		{Scenario: "growth", Contestant: results.Millrace, Metrics: zero},
		{Scenario: "growth", Contestant: results.ClientGo},
		{Scenario: "a | b", Contestant: "some|body", Metrics: map[string]results.Stat{"odd": {Median: 1}},
			Series: map[string][]results.Point{"x": {{T: 1, V: 1}}}},
		{Scenario: "slow-handler", Contestant: results.Millrace,
			Series: map[string][]results.Point{results.RSSOverTime: {{T: 0, V: 0}, {T: 0, V: 0}}}},
	}}
	dir := t.TempDir()
	_, err := write(r, dir)
	require.NoError(t, err)
	text := files(t, dir)[report]
	require.Contains(t, text, `some\|body`)
	require.Equal(t, 1, strings.Count(text, "!["), text)
}

func TestErrorsNameTheFile(t *testing.T) {
	cmd := newCommand()
	cmd.SetArgs([]string{"testdata/none.json"})
	require.ErrorContains(t, cmd.Execute(), "testdata/none.json")

	occupied := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(occupied, nil, 0o644))
	cmd.SetArgs([]string{"testdata/results.json", "--out", occupied})
	require.ErrorContains(t, cmd.Execute(), occupied)
}
