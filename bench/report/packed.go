package main

import (
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// targets writes the table of the targets that have a description, if any was measured. Each row has the
// target, its result and, if it was missed, the reason.
func (p *page) targets(r *results.Results) {
	var rows [][]string
	measured := false
	for _, v := range r.Check(results.Targets()) {
		if v.Target.What != "" {
			rows = append(rows, targetRow(r, v))
			measured = measured || v.Measured
		}
	}
	if !measured {
		return
	}
	p.line("## Packed caches\n")
	p.line("Caches of bytes (`Store: sharedinformer.Packed`), held against client-go and controller-runtime.\n")
	p.row([]string{"figure", "scenario", "peer", "packed", "ratio", "target", "verdict"})
	p.line("|---|---|---|---|---|---|---|")
	for _, row := range rows {
		p.row(row)
	}
	p.line("")
}

func targetRow(r *results.Results, v results.Verdict) []string {
	t := v.Target
	what := t.What
	if t.Contestant != results.MillracePacked {
		what += ": " + t.Contestant
	}
	peer, ours, ratio := "", "", ""
	if v.Row != nil {
		if stat, ok := v.Row.Metrics[t.Metric]; ok {
			ours = results.Format(t.Metric, stat.Median)
		}
		if t.Against != "" {
			if other := r.Find(v.Row.Scenario, v.Row.Params, t.Against); other != nil {
				peer = fmt.Sprintf("%s (%s)", results.Format(t.Metric, other.Metrics[t.Metric].Median), t.Against)
			}
			if v.Measured {
				ratio = fmt.Sprintf("%.3g", v.Got)
			}
		}
	}
	verdict := v.Outcome()
	if v.Measured && !v.Met() {
		verdict = strings.TrimSpace("**" + verdict + ".** " + t.Missed)
	}
	link := fmt.Sprintf("[%s](#%s)", t.Scenario, t.Scenario)
	if v.Row == nil {
		link = t.Scenario // it has no section
	}
	want := strings.TrimSuffix(t.Want(), " × "+t.Against)
	return []string{what, link, peer, ours, ratio, want, verdict}
}
