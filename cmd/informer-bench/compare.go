package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// compared is the comparison of two revisions of a contestant in one job.
type compared struct {
	job           scenario.Job
	latest, older entrant
	figures       []results.Comparison
}

// compare compares the revisions measured in a job.
func compare(j scenario.Job, entrants []entrant, all rounds) (list []compared) {
	for _, pair := range pairs(entrants) {
		c := compared{job: j, latest: pair[0], older: pair[1]}
		latest, older := all[c.latest.name], all[c.older.name]
		if len(latest) == 0 || len(older) == 0 {
			continue
		}
		metrics := map[string]results.Stat{}
		for metric := range latest[0] {
			if !derived(j, metric) {
				metrics[metric] = results.Stat{}
			}
		}
		for _, metric := range results.Ordered(metrics) {
			if figure, ok := results.Compare(metric, column(latest, metric), column(older, metric)); ok {
				c.figures = append(c.figures, figure)
			}
		}
		list = append(list, c)
	}
	return list
}

// derived reports whether a metric is just wall or CPU time in another unit. Comparing it too would count the
// same difference twice.
func derived(j scenario.Job, metric string) bool {
	switch metric {
	case results.CPUPerObject, results.EventsPerSec, results.WallPerEvent:
		return true
	case results.CPUPerEvent:
		return j.Script != scenario.Reconcile
	}
	return false
}

// writeCompared prints a line per metric.
func writeCompared(out io.Writer, c compared) error {
	fmt.Fprintf(out, "\n%s: %s against %s\n", c.job.Title(), c.latest.name, c.older.name) // Flush reports write errors
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "METRIC\t%s\t%s\tRATIO\tMIN\tMAX\tVERDICT\n", strings.ToUpper(c.latest.name), strings.ToUpper(c.older.name))
	for _, f := range c.figures {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Metric,
			results.Format(f.Metric, f.New.Median), results.Format(f.Metric, f.Old.Median), ratioOf(f, "\t%.3f\t%.3f"), f)
	}
	return w.Flush()
}

// ratioOf formats the median of the pairwise ratios and, if spread is set, their minimum and maximum.
func ratioOf(f results.Comparison, spread string) string {
	if f.Ratio == (results.Stat{}) {
		return strings.Repeat("\t", strings.Count(spread, "\t")) // no ratio: a value was zero
	}
	return fmt.Sprintf("%.3f"+spread, f.Ratio.Median, f.Ratio.Min, f.Ratio.Max)
}

// writeConclusion lists the figures that changed between two revisions.
func writeConclusion(out io.Writer, list []compared) error {
	w := &errWriter{out: out}
	for len(list) > 0 {
		same := func(c compared) bool {
			return c.latest.name == list[0].latest.name && c.older.name == list[0].older.name
		}
		var these, others []compared
		for _, c := range list {
			if same(c) {
				these = append(these, c)
			} else {
				others = append(others, c)
			}
		}
		conclude(w, these)
		list = others
	}
	return w.err
}

func conclude(w io.Writer, list []compared) {
	by, total, rounds := map[results.Difference][]string{}, 0, 0
	for _, c := range list {
		for _, f := range c.figures {
			total, rounds = total+1, f.Rounds
			change := ratioOf(f, " (%.3f to %.3f)")
			if change == "" {
				change = results.Format(f.Metric, f.Old.Median) + " → " + results.Format(f.Metric, f.New.Median)
			}
			by[f.Difference] = append(by[f.Difference], fmt.Sprintf("  %s: %s: %s, %s", c.job.Title(), results.Title(f.Metric), change, f))
		}
	}
	fmt.Fprintf(w, "\n%s against %s: %d figures, %d rounds\n", list[0].latest.name, list[0].older.name, total, rounds)
	if rounds < results.FewestRounds {
		fmt.Fprintf(w, "%d differ by more than 2 %%, but fewer than %d rounds cannot tell that from noise\n", len(by[results.Unclear]), results.FewestRounds)
		return
	}
	fmt.Fprintf(w, "slower than noise (or more): %d\n", len(by[results.Worse]))
	for _, line := range by[results.Worse] {
		fmt.Fprintln(w, line)
	}
	if chance := int(math.Ceil(float64(total) * results.FalseAlarms(rounds))); len(by[results.Worse]) > 0 {
		fmt.Fprintf(w, "  Without any difference, chance would show up to %d of these; measure them again, alone and with more rounds.\n", chance)
	}
	fmt.Fprintf(w, "faster than noise (or less): %d\nunclear: %d\nthe same: %d\n", len(by[results.Better]), len(by[results.Unclear]), len(by[results.Same]))
}

// errWriter remembers the first error.
type errWriter struct {
	out io.Writer
	err error
}

func (w *errWriter) Write(b []byte) (int, error) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	return len(b), w.err
}
