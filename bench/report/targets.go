package main

import (
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// targets writes the last section. It has one row per target and measured figure, with the outcome and the
// reason for each miss.
func (p *page) targets(r *results.Results, sections []section) {
	p.line("## Targets of the project\n")
	p.line("The project sets itself limits, for --objects 50000, and says here which of them it reaches. A limit is")
	p.line("a ratio to another contestant, to the same contestant with the fewest objects, or a figure.\n")
	p.counts(r)
	if len(sections) > 0 {
		p.row([]string{"scenario", "figure", "result", "ratio", "target", "outcome"})
		p.line("|---|---|---|---|---|---|")
		for i := range sections {
			for _, v := range sections[i].verdicts {
				if v.Measured {
					p.row(targetRow(&sections[i], v))
				}
			}
		}
		p.line("")
	}
	p.unmeasured(r)
}

func targetRow(s *section, v results.Verdict) []string {
	t := v.Target
	where := fmt.Sprintf("[%s](#%s)", s.scenario, s.scenario)
	if own := s.own(group{params: v.Row.Params}).String(); own != "" {
		where += "<br>" + own
	}
	result, ratio := "", ""
	if stat, ok := v.Row.Metrics[t.Metric]; ok {
		result = results.Format(t.Metric, stat.Median)
	}
	if t.Against != "" || t.Growth {
		ratio = fmt.Sprintf("%.3g", v.Got)
	}
	outcome := v.Outcome()
	if !v.Met() {
		outcome = strings.TrimSpace("**" + outcome + ".** " + t.Missed)
	}
	return []string{where, cell(t.Figure()), result, ratio, t.Want(), outcome}
}

// counts writes the number of targets by outcome.
func (p *page) counts(r *results.Results) {
	met, missed, unmeasured := 0, 0, 0
	for _, v := range r.Check(results.Targets()) {
		switch {
		case !v.Measured:
			unmeasured++
		case v.Met():
			met++
		default:
			missed++
		}
	}
	p.line("In this run %d targets are met, %d are missed and %d were not measured.\n", met, missed, unmeasured)
}

// unmeasured lists the number of unmeasured targets by scenario.
func (p *page) unmeasured(r *results.Results) {
	var scenarios []string
	count := map[string]int{}
	for _, v := range r.Check(results.Targets()) {
		if v.Measured {
			continue
		}
		if count[v.Target.Scenario] == 0 {
			scenarios = append(scenarios, v.Target.Scenario)
		}
		count[v.Target.Scenario]++
	}
	if len(scenarios) == 0 {
		return
	}
	p.line("Not measured in this run:\n")
	for _, scenario := range scenarios {
		p.line("- %s: %s", scenario, plural(count[scenario], "target"))
	}
}
