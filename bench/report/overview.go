package main

import (
	"fmt"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// headline is a figure on the first page: in its table, its picture, or both.
type headline struct {
	scenario   string
	params     results.Params // parameters that a row must have; objects are ordinary unless these say otherwise
	contestant string
	metric     string
	what       string // description
	listed     bool   // in the table
	drawn      part   // the section of the picture that shows it
}

// part is a section of the picture.
type part int

const (
	notDrawn part = iota
	memory
	speed
)

// headlines returns the figures on the first page, in order. Ten of them are in the table: the ones that
// matter most when choosing a library.
func headlines() []headline {
	const ours, packed = results.Millrace, results.MillracePacked
	hostile := results.Params{results.Hostile: 1}
	keys := results.Params{results.Keys: 1}
	return []headline{
		{"sync-protobuf", nil, ours, results.Wall, "list Pods", true, speed},
		{"sync-protobuf", nil, ours, results.CPU, "CPU to list Pods", true, notDrawn},
		{"sync-protobuf", nil, ours, results.PeakRSS, "peak memory, listing Pods", true, memory},
		{"sync-protobuf", nil, ours, results.LivePerObject, "memory of a cached Pod", true, memory},
		{"packed-sync", keys, packed, results.LivePerObject, "memory of a cached Pod, packed", true, notDrawn},
		{"sync-protobuf", hostile, ours, results.Wall, "list Pods in which nothing repeats", false, speed},
		{"sync-protobuf", hostile, ours, results.PeakRSS, "peak memory where nothing repeats", false, memory},
		{"sync-json", nil, ours, results.Wall, "list custom resources", true, speed},
		{"sync-json", nil, ours, results.PeakRSS, "peak memory, custom resources", false, memory},
		{"sync-json", nil, ours, results.LivePerObject, "memory of a cached custom resource", false, memory},
		{"relist-unchanged", nil, ours, results.Wall, "list again, nothing changed", true, speed},
		{"watch-protobuf", nil, ours, results.CPUPerEvent, "CPU of a watch event", true, speed},
		{"watch-json", nil, ours, results.CPUPerEvent, "CPU of a watch event in JSON", false, speed},
		{"latency", nil, ours, results.P99, "from the server to a handler, p99", true, notDrawn},
		{"fanout", results.Params{results.Handlers: 10}, ours, results.WallPerEvent, "a change to 10 handlers", false, speed},
		{"workqueue", results.Params{results.Workers: 8}, ours, results.WallPerEvent, "a key through the work queue", false, speed},
		{"reconcile", nil, ours, results.CPUPerEvent, "CPU from a watch event to its reconcile", true, notDrawn},
	}
}

// figure is a headline and its measurements.
type figure struct {
	headline
	peer     string
	objects  int
	ours     float64
	theirs   float64
	measured bool // theirs is set
	ratio    float64
}

// figures returns the headlines that were measured.
func figures(sections []section) []figure {
	var all []figure
	for _, h := range headlines() {
		for i := range sections {
			if sections[i].scenario == h.scenario {
				if f, ok := h.in(&sections[i]); ok {
					all = append(all, f)
				}
			}
		}
	}
	return all
}

// in returns the headline's figure from the first group in its section that has the headline's parameters.
func (h headline) in(s *section) (figure, bool) {
	for _, g := range s.groups {
		row := g.of(h.contestant)
		if row == nil || !g.params.Has(h.params) || !g.params.SameLoad(h.params) {
			continue
		}
		stat, ok := row.Metrics[h.metric]
		if !ok {
			continue
		}
		f := figure{headline: h, peer: g.peer(), objects: g.params[results.Objects], ours: stat.Median}
		f.ratio = row.Ratio[f.peer][h.metric]
		if peer := g.of(f.peer); peer != nil {
			other, ok := peer.Metrics[h.metric]
			f.theirs, f.measured = other.Median, ok
		}
		return f, true
	}
	return figure{}, false
}

// of returns a contestant's row, or nil.
func (g group) of(contestant string) *results.Result {
	for _, row := range g.rows {
		if row.Contestant == contestant {
			return row
		}
	}
	return nil
}

// overview writes the first page: a table of headline figures, and a picture.
func (p *page) overview(figures []figure, picture []byte) {
	if len(figures) == 0 {
		return
	}
	p.line("With %d objects. The ratio is the median of the quotients round by round; less is better.\n", figures[0].objects)
	p.row([]string{"", results.ClientGo, "Millrace", "ratio", "measured in"})
	p.line("|---|---|---|---|---|")
	for _, f := range figures {
		if !f.listed {
			continue
		}
		theirs, ratio := "", ""
		if f.measured {
			theirs = results.Format(f.metric, f.theirs)
		}
		if f.peer != results.ClientGo && theirs != "" {
			theirs += " (" + f.peer + ")"
		}
		if f.ratio > 0 {
			ratio = fmt.Sprintf("%.3g", f.ratio)
		}
		p.row([]string{f.what, theirs, results.Format(f.metric, f.ours), ratio, fmt.Sprintf("[%s](#%s)", f.scenario, f.scenario)})
	}
	p.line("")
	if len(picture) > 0 {
		p.line("![Memory and speed against client-go](%s)\n", linkTo(overview))
	}
}
