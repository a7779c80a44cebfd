package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// table writes a table with one row per figure and one column per contestant. A cell contains the median, its
// spread over the rounds and, below them, the ratio to the peer's.
func (p *page) table(s *section) {
	names := s.contestants()
	header := append([]string{"figure"}, names...)
	p.row(header)
	p.line("|%s", strings.Repeat("---|", len(header)))
	for _, g := range s.groups {
		own := s.own(g).String()
		for _, metric := range g.metrics() {
			if s.redundant(metric) {
				continue
			}
			cells := []string{results.Title(metric)}
			if own != "" {
				cells[0] += "<br>" + own
			}
			for _, name := range names {
				cells = append(cells, s.cell(g, g.of(name), metric))
			}
			p.row(cells)
		}
	}
	p.line("")
}

// contestants returns the contestants in all groups, in display order.
func (s *section) contestants() (names []string) {
	for _, g := range s.groups {
		for _, row := range g.rows {
			if name := cell(row.Contestant); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return place(a) - place(b) })
	return names
}

// redundant reports whether a figure has no target and merely restates another figure per object or per
// event.
func (s *section) redundant(metric string) bool {
	whole := map[string]string{
		results.CPUPerObject: results.CPU, results.CPUPerEvent: results.CPU,
		results.WallPerEvent: results.Wall, results.EventsPerSec: results.Wall,
	}[metric]
	if whole == "" || slices.ContainsFunc(s.verdicts, func(v results.Verdict) bool { return v.Target.Metric == metric }) {
		return false
	}
	return slices.ContainsFunc(s.groups, func(g group) bool { return slices.Contains(g.metrics(), whole) })
}

// cell returns the contents of a contestant's cell for a figure, or "" if it was not measured.
func (s *section) cell(g group, row *results.Result, metric string) string {
	if row == nil {
		return ""
	}
	stat, ok := row.Metrics[metric]
	if !ok {
		return ""
	}
	text := spread(metric, stat)
	if r, ok := row.Ratio[g.peer()][metric]; ok && row.Contestant != g.peer() && row.Contestant != results.Floor {
		text += fmt.Sprintf("<br>× %.3g", r)
	}
	return text
}

func (p *page) row(cells []string) { p.line("| %s |", strings.Join(cells, " | ")) }

// spread formats a figure as "2.31 s [1.90 s – 3.60 s]", without the brackets if all rounds are equal.
func spread(metric string, s results.Stat) string {
	if s.Min == s.Max {
		return results.Format(metric, s.Median)
	}
	return fmt.Sprintf("%s [%s – %s]", results.Format(metric, s.Median), results.Format(metric, s.Min), results.Format(metric, s.Max))
}
