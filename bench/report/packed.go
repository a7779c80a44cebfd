package main

import (
	"fmt"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// packed writes a table of the measured figures for packed caches. Their targets are the ones with a
// description.
func (p *page) packed(r *results.Results) {
	var rows [][]string
	for _, v := range r.Check(results.Targets()) {
		if v.Target.What != "" && v.Measured {
			rows = append(rows, packedRow(r, v))
		}
	}
	if len(rows) == 0 {
		return
	}
	p.line("## Packed caches\n")
	p.line("Caches of bytes (`Store: sharedinformer.Packed`), compared with client-go and controller-runtime.\n")
	p.row([]string{"", "peer", "packed", "ratio", "measured in"})
	p.line("|---|---|---|---|---|")
	for _, row := range rows {
		p.row(row)
	}
	p.line("")
}

func packedRow(r *results.Results, v results.Verdict) []string {
	t := v.Target
	what, peer, ratio := t.What, "", ""
	if t.Contestant != results.MillracePacked {
		what += " (" + t.Contestant + ")"
	}
	if t.Against != "" {
		ratio = fmt.Sprintf("%.3g", v.Got)
		if other := r.Find(v.Row.Scenario, v.Row.Params, t.Against); other != nil {
			peer = fmt.Sprintf("%s (%s)", results.Format(t.Metric, other.Metrics[t.Metric].Median), t.Against)
		}
	}
	ours := results.Format(t.Metric, v.Row.Metrics[t.Metric].Median)
	return []string{what, peer, ours, ratio, fmt.Sprintf("[%s](#%s)", t.Scenario, t.Scenario)}
}
