package main

import (
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// headline is a figure that represents a scenario on the first page.
type headline struct {
	scenario string
	params   results.Params // a row must have these; it must not be hostile unless they say so
	metric   string
	what     string // description
	drawn    part   // its part of the picture
}

// part is a part of the picture.
type part int

const (
	notDrawn part = iota
	memory
	speed
)

// headlines returns the headlines of the first table and of the picture, in their order.
func headlines() []headline {
	hostile := results.Params{results.Hostile: 1}
	eighty := results.Params{results.Readers: 80}
	return []headline{
		{"sync-protobuf", nil, results.Wall, "list Pods", speed},
		{"sync-protobuf", nil, results.CPU, "CPU for that", notDrawn},
		{"sync-protobuf", nil, results.PeakRSS, "peak memory, listing Pods", memory},
		{"sync-protobuf", nil, results.LivePerObject, "memory of a cached Pod", memory},
		{"sync-protobuf", hostile, results.Wall, "list Pods in which nothing repeats", speed},
		{"sync-protobuf", hostile, results.CPU, "CPU for that", notDrawn},
		{"sync-protobuf", hostile, results.PeakRSS, "peak memory where nothing repeats", memory},
		{"sync-json", nil, results.Wall, "list custom resources", speed},
		{"sync-json", nil, results.PeakRSS, "peak memory, custom resources", memory},
		{"sync-json", nil, results.LivePerObject, "memory of a cached custom resource", memory},
		{"sync-watchlist", nil, results.Wall, "list Pods by a stream", notDrawn},
		{"growth", nil, results.CPUPerObject, "CPU an object; the ratio is of most objects to fewest", notDrawn},
		{"relist-unchanged", nil, results.Wall, "list again, nothing changed", speed},
		{"watch-protobuf", nil, results.CPUPerEvent, "CPU of a watch event", speed},
		{"watch-json", nil, results.CPUPerEvent, "CPU of a watch event in JSON", speed},
		{"latency", nil, results.P99, "server to handler, p99", notDrawn},
		{"fanout", results.Params{results.Handlers: 10}, results.WallPerEvent, "a change to 10 handlers", speed},
		{"readers", eighty, results.ReadsPerSec, "reads of a namespace, 80 readers", notDrawn},
		{"readers", eighty, results.WritesPerSec, "writes beside 80 readers", notDrawn},
		{"workqueue", results.Params{results.Workers: 8}, results.WallPerEvent, "a key through the work queue", speed},
		{"late-handler", nil, results.Pause, "pause while a handler joins", notDrawn},
		{"slow-handler", nil, results.Held, "memory held for a handler that sleeps", notDrawn},
		{"reconcile", nil, results.CPUPerReconcile, "CPU for a reconcile at the start", notDrawn},
		{"reconcile", nil, results.CPUPerEvent, "CPU from event to reconcile", notDrawn},
		{"cached-read", results.Params{results.Copied: 0}, results.Get, "a lookup, not copied", notDrawn},
	}
}

// figure is a headline with its measurements.
type figure struct {
	headline
	peer       string
	objects    int
	ours       float64
	theirs     float64
	measured   bool // theirs is set
	ratio      float64
	verdict    results.Verdict
	hasVerdict bool
}

// figures returns the headlines for which Millrace has a figure.
func figures(r *results.Results, sections []section) []figure {
	verdicts := r.Check(results.Targets())
	var all []figure
	for _, h := range headlines() {
		for i := range sections {
			if sections[i].scenario == h.scenario {
				if f, ok := h.in(&sections[i], verdicts); ok {
					all = append(all, f)
				}
			}
		}
	}
	return all
}

// in returns the headline's figure in its section. It takes the figure from the first group with the
// headline's parameters, or from the group of its target.
func (h headline) in(s *section, verdicts []results.Verdict) (figure, bool) {
	f := figure{headline: h}
	for _, g := range s.groups {
		if !g.params.Has(h.params) || g.params[results.Hostile] != h.params[results.Hostile] {
			continue
		}
		row := g.of(results.Millrace)
		if row == nil {
			continue
		}
		stat, ok := row.Metrics[h.metric]
		if !ok {
			continue
		}
		first := f.peer == ""
		for _, v := range verdicts {
			if v.Row != row || v.Target.Metric != h.metric || v.Target.Against == results.Floor || !v.Measured || f.hasVerdict {
				continue
			}
			f.verdict, f.hasVerdict, first = v, true, true
		}
		if !first {
			continue
		}
		f.peer, f.objects, f.ours, f.ratio = g.peer(), g.params[results.Objects], stat.Median, row.Ratio[g.peer()][h.metric]
		if peer := g.of(f.peer); peer != nil {
			other, ok := peer.Metrics[h.metric]
			f.theirs, f.measured = other.Median, ok
		}
	}
	return f, f.peer != ""
}

// of returns the row of a contestant, or nil.
func (g group) of(contestant string) *results.Result {
	for _, row := range g.rows {
		if row.Contestant == contestant {
			return row
		}
	}
	return nil
}

// overview writes the first page: a picture, and a row per headline.
func (p *page) overview(r *results.Results, figures []figure, picture []byte) {
	if len(figures) == 0 {
		return
	}
	if len(picture) > 0 {
		p.line("![Memory and speed against client-go](%s)\n", linkTo(overview))
	}
	p.row([]string{"scenario", "figure", results.ClientGo, "Millrace", "ratio", "target", "verdict"})
	p.line("|---|---|---|---|---|---|---|")
	for i, f := range figures {
		theirs, ratio, want, verdict := "", "", "", ""
		if f.measured {
			theirs = results.Format(f.metric, f.theirs)
		}
		if f.peer != results.ClientGo && theirs != "" {
			theirs += " (" + f.peer + ")"
		}
		if f.ratio > 0 {
			ratio = fmt.Sprintf("%.3g", f.ratio)
		}
		if f.hasVerdict {
			want, verdict = f.verdict.Target.Want(), f.verdict.Outcome()
			if f.verdict.Target.Growth {
				ratio = fmt.Sprintf("%.3g", f.verdict.Got)
			}
			want = strings.TrimSuffix(want, " × "+f.peer)
			if !f.verdict.Met() {
				verdict = "**" + verdict + "**"
			}
		}
		link := ""
		if i == 0 || figures[i-1].scenario != f.scenario {
			link = fmt.Sprintf("[%s](#%s)", f.scenario, f.scenario)
		}
		p.row([]string{link, f.what, theirs, results.Format(f.metric, f.ours), ratio, want, verdict})
	}
	p.line("")
	p.counts(r)
}

// counts writes the number of targets, and explains ratios.
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
	p.line("The ratio is the median of the quotients round by round; below 1 is better for costs, above 1 for rates.")
	p.line("Of all targets in the sections below, %d are met, %d missed and %d not measured in this run.", met, missed, unmeasured)
	p.line("A missed one is in bold.\n")
}
