package main

import (
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/bench/results"
)

// table is one row for each figure. The cells of parameters and metric are
// left empty where they are those of the row above.
func (p *page) table(s *section) {
	header := []string{"metric", "contestant", "median [min – max]", "ratio", "target", "outcome"}
	withParams := len(s.groups) > 1
	if withParams {
		header = append([]string{"parameters"}, header...)
	}
	p.row(header)
	p.line("|%s", strings.Repeat("---|", len(header)))
	for _, g := range s.groups {
		params := s.own(g).String()
		for _, metric := range g.metrics() {
			title := results.Title(metric)
			for _, row := range g.rows {
				stat, ok := row.Metrics[metric]
				if !ok {
					continue
				}
				want, outcome := judged(s.verdictsOn(row, metric), g.peer())
				cells := []string{title, cell(row.Contestant), spread(metric, stat), ratio(row, g.peer(), metric), want, outcome}
				if withParams {
					cells = append([]string{params}, cells...)
				}
				p.row(cells)
				params, title = "", ""
			}
		}
	}
	p.line("")
}

func (p *page) row(cells []string) { p.line("| %s |", strings.Join(cells, " | ")) }

// spread is "2.31 s [1.90 s – 3.60 s]", without the brackets where all rounds
// gave the same.
func spread(metric string, s results.Stat) string {
	if s.Min == s.Max {
		return results.Format(metric, s.Median)
	}
	return fmt.Sprintf("%s [%s – %s]", results.Format(metric, s.Median), results.Format(metric, s.Min), results.Format(metric, s.Max))
}

// ratio is that to the peer, which has none to itself.
func ratio(row *results.Result, peer, metric string) string {
	r, ok := row.Ratio[peer][metric]
	switch {
	case row.Contestant == peer:
		return "1"
	case !ok:
		return ""
	}
	return fmt.Sprintf("%.3g", r)
}

// judged are the cells of target and outcome: a line for each verdict.
func judged(verdicts []results.Verdict, peer string) (want, outcome string) {
	var wants, outcomes []string
	for _, v := range verdicts {
		wants = append(wants, v.Target.Want())
		text := v.Outcome()
		if v.Measured && (v.Target.Growth || v.Target.Against != "" && v.Target.Against != peer) {
			text = strings.TrimSpace(fmt.Sprintf("%.3g × %s", v.Got, v.Target.Against)) + ": " + text // it stands nowhere else in the row
		}
		if v.Measured && !v.Met() {
			text = "**" + text + "**"
		}
		outcomes = append(outcomes, text)
	}
	return strings.Join(wants, "<br>"), strings.Join(outcomes, "<br>")
}
