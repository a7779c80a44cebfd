package main

import (
	"fmt"
	"io"
	"maps"
	"strings"
	"text/tabwriter"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// writeTable prints a job's results with one line per metric and contestant.
func writeTable(out io.Writer, j scenario.Job, all rounds, rows []results.Result) error {
	fmt.Fprintf(out, "\n%s\n", j.Title()) // errors from this writer are also reported by the tabwriter's Flush
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	peer := j.Peer()
	fmt.Fprint(w, "METRIC\tCONTESTANT\tMEDIAN\tMIN\tMAX\t")
	if len(all[peer]) > 0 {
		fmt.Fprintf(w, "× %s (MIN-MAX)\tTARGET\t", strings.ToUpper(peer))
	}
	fmt.Fprintln(w)
	verdicts := (&results.Results{Results: rows}).Check(results.Targets())
	for _, metric := range metricsOf(rows) {
		for _, row := range rows {
			s, ok := row.Metrics[metric]
			if !ok {
				continue
			}
			name, ratio := row.Contestant, ""
			if r, ok := ratiosOf(all[name], all[peer])[metric]; ok && name != peer {
				ratio = fmt.Sprintf("%.3g (%.3g-%.3g)", r.Median, r.Min, r.Max)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t", metric, name, results.Format(metric, s.Median), results.Format(metric, s.Min), results.Format(metric, s.Max))
			if len(all[peer]) > 0 {
				fmt.Fprintf(w, "%s\t%s\t", ratio, judgedOf(verdicts, name, metric))
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}

// metricsOf returns the metrics that occur in any row, in display order.
func metricsOf(rows []results.Result) []string {
	all := map[string]results.Stat{}
	for _, row := range rows {
		maps.Copy(all, row.Metrics)
	}
	return results.Ordered(all)
}

// judgedOf describes whether a contestant's metric meets its targets.
func judgedOf(verdicts []results.Verdict, contestant, metric string) string {
	var judged []string
	for _, v := range verdicts {
		if !v.Measured || v.Row.Contestant != contestant || v.Target.Metric != metric {
			continue
		}
		text := v.Target.Want() + ": " + v.Outcome()
		if v.Target.Against == results.Floor {
			text += fmt.Sprintf(" (%.3g)", v.Got)
		}
		judged = append(judged, text)
	}
	return strings.Join(judged, "; ")
}

// writeGrowth prints the verdicts on targets that span several variants.
func writeGrowth(out io.Writer, variants []results.Result) error {
	for _, v := range (&results.Results{Results: variants}).Check(results.Targets()) {
		if !v.Target.Growth || !v.Measured {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s\n", v); err != nil {
			return err
		}
	}
	return nil
}
