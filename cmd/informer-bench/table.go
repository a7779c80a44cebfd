package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// writeTable prints a job: a line for each metric and contestant.
func writeTable(out io.Writer, j job, all rounds) error {
	fmt.Fprintf(out, "\n%s\n", j.title()) // an error shows at Flush, on the same writer
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "METRIC\tCONTESTANT\tMEDIAN\tMIN\tMAX\t× CLIENT-GO (MIN-MAX)\tTARGET\t")
	for _, metric := range metricsOf(all) {
		for _, name := range j.contestants {
			values := column(all[name], metric)
			if len(values) == 0 {
				continue
			}
			s := spreadOf(values)
			ratio := ""
			if r, ok := ratiosOf(all[name], all[clientGo])[metric]; ok && name != clientGo {
				ratio = fmt.Sprintf("%s (%s-%s)", digits(r.Median), digits(r.Min), digits(r.Max))
			}
			verdicts := ""
			if name == millrace {
				verdicts = verdictsOf(j, metric, all)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", metric, name,
				quantity(metric, s.Median), quantity(metric, s.Min), quantity(metric, s.Max), ratio, verdicts)
		}
	}
	return w.Flush()
}

func metricsOf(all rounds) []string {
	seen := map[string]bool{}
	for _, of := range all {
		for metric := range of[0] {
			seen[metric] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// verdictsOf says which targets of a metric are met.
func verdictsOf(j job, metric string, all rounds) string {
	var verdicts []string
	for _, t := range j.targets {
		if !t.concerns(metric, j.params) {
			continue
		}
		value, known := spreadOf(column(all[millrace], metric)).Median, true
		shown := ""
		if t.against != "" {
			var r Spread
			r, known = ratiosOf(all[millrace], all[t.against])[metric]
			value = r.Median
			if t.against != clientGo {
				shown = fmt.Sprintf(" (%s × %s)", digits(value), t.against)
			}
		}
		if known {
			verdicts = append(verdicts, verdict(t, value)+shown)
		}
	}
	return strings.Join(verdicts, "; ")
}

func verdict(t target, value float64) string {
	relation, judged := "≤", "met"
	if t.atLeast {
		relation = "≥"
	}
	if !t.met(value) {
		judged = "not met"
	}
	return fmt.Sprintf("%s %g: %s", relation, t.bound, judged)
}

// growthOf is how much a metric of a contestant grew from the first variant of
// a scenario to the last.
func growthOf(results []Result, contestant, metric string) (ratio float64, known bool) {
	var of []Spread
	for _, r := range results {
		if s, ok := r.Metrics[metric]; ok && r.Contestant == contestant {
			of = append(of, s)
		}
	}
	if len(of) < 2 || of[0].Median == 0 {
		return 0, false
	}
	return of[len(of)-1].Median / of[0].Median, true
}

// writeGrowth prints the targets that are about several variants.
func writeGrowth(out io.Writer, s scenario, results []Result) error {
	for _, t := range s.targets {
		if !t.growth {
			continue
		}
		for _, name := range s.contestants {
			ratio, known := growthOf(results, name, t.metric)
			if !known {
				continue
			}
			line := fmt.Sprintf("\n%s: %s of %s grows %s times from the first variant to the last", s.name, t.metric, name, digits(ratio))
			if name == millrace {
				line += " (" + verdict(t, ratio) + ")"
			}
			if _, err := fmt.Fprintln(out, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// quantity writes a value in the unit that its metric's name ends in.
func quantity(metric string, value float64) string {
	switch {
	case strings.HasSuffix(metric, "_per_s"):
		return fmt.Sprintf("%.0f", value)
	case strings.HasSuffix(metric, "_s"):
		return duration(value)
	case strings.HasSuffix(metric, "bytes_per_object"):
		return fmt.Sprintf("%.0f B", value)
	case strings.HasSuffix(metric, "_bytes"):
		return size(value)
	}
	return digits(value)
}

func duration(s float64) string {
	switch {
	case s < 1e-6:
		return digits(s*1e9) + " ns"
	case s < 1e-3:
		return digits(s*1e6) + " µs"
	case s < 1:
		return digits(s*1e3) + " ms"
	}
	return digits(s) + " s"
}

func size(bytes float64) string {
	if bytes < 1<<20 {
		return digits(bytes/(1<<10)) + " KiB"
	}
	return digits(bytes/(1<<20)) + " MiB"
}

// digits writes three significant digits.
func digits(value float64) string {
	switch {
	case value >= 100 || value <= -100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10 || value <= -10:
		return fmt.Sprintf("%.1f", value)
	case value >= 1 || value <= -1:
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("%.3g", value)
}
