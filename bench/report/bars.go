package main

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// bar is a contestant's figure relative to the peer's. Rates are inverted so that less is always better.
type bar struct {
	label      string // title of the figure, shared by all contestants in a group of bars
	contestant string
	ratio      float64
}

// maxBars is the maximum number of figures shown in a chart. The table lists them all.
const maxBars = 12

// bars returns the bars for every figure whose target is relative to the peer, or for wall and CPU time if
// there are none.
func (s *section) bars() []bar {
	var bars []bar
	figures := 0
	for _, targeted := range []bool{true, false} {
		if len(bars) > 0 {
			break
		}
		for _, g := range s.groups {
			for _, metric := range g.metrics() {
				if figures < maxBars && s.drawn(g, metric, targeted) {
					figures++
					bars = append(bars, s.figure(g, metric)...)
				}
			}
		}
	}
	return bars
}

// drawn reports whether the chart shows a figure.
func (s *section) drawn(g group, metric string, targeted bool) bool {
	lead := g.lead()
	if lead == nil || lead.Ratio[g.peer()][metric] <= 0 {
		return false
	}
	if !targeted {
		return metric == results.Wall || metric == results.CPU || metric == results.CPUPerObject
	}
	return s.targeted(lead, metric, g.peer())
}

// figure returns one bar per contestant that was compared with the peer.
func (s *section) figure(g group, metric string) []bar {
	label := results.Title(metric)
	if results.MoreIsBetter(metric) {
		label = "time for " + label
	}
	if own := s.own(g); len(own) > 0 {
		label += ", " + own.String()
	}
	var bars []bar
	for _, row := range g.rows {
		ratio := row.Ratio[g.peer()][metric]
		if ratio <= 0 || row.Contestant == g.peer() {
			continue
		}
		b := bar{label: label, contestant: row.Contestant, ratio: ratio}
		if results.MoreIsBetter(metric) {
			b.ratio = 1 / b.ratio
		}
		bars = append(bars, b)
	}
	return bars
}

const (
	barHeight  = 11 // in points, like the dimensions below
	barGap     = 2
	labelSpace = 17
	groupGap   = 7
	aroundBars = 84 // title, legend, axis and margins
)

// barChart is a plot.Plotter that draws horizontal bars from top to bottom, with a label above each figure.
// The Y axis is in points.
type barChart struct {
	bars   []bar
	bottom []float64 // of each bar
	height float64
	limit  float64 // of the X axis
}

// maxRatio is where long bars are cut off so that short ones stay distinguishable.
const maxRatio = 3

func newBarChart(bars []bar) *barChart {
	c := &barChart{bars: bars}
	used, longest := 0.0, 1.0
	for i, b := range bars {
		if c.first(i) {
			used += groupGap + labelSpace
		} else {
			used += barGap
		}
		used += barHeight
		c.bottom = append(c.bottom, used)
		longest = max(longest, min(b.ratio, maxRatio))
	}
	c.height = used + groupGap
	for i := range c.bottom {
		c.bottom[i] = c.height - c.bottom[i]
	}
	const labels = 1.25 // space for the longest bar's label
	c.limit = longest * labels
	return c
}

// first reports whether the i-th bar is the first one for its figure.
func (c *barChart) first(i int) bool { return i == 0 || c.bars[i].label != c.bars[i-1].label }

// Plot draws the bars, their labels and ratios.
func (c *barChart) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	reference := draw.LineStyle{Color: ink(), Width: 1, Dashes: []vg.Length{3, 2}}
	canvas.StrokeLine2(reference, x(1), canvas.Min.Y, x(1), canvas.Max.Y)
	text := p.X.Tick.Label
	text.XAlign, text.YAlign = draw.XLeft, draw.YCenter
	for i, b := range c.bars {
		low, high, end := y(c.bottom[i]), y(c.bottom[i]+barHeight), x(min(b.ratio, maxRatio))
		if c.first(i) {
			canvas.FillText(text, vg.Point{X: x(0) + 4, Y: high + labelSpace/2 + 1}, b.label)
		}
		canvas.FillPolygon(colourOf(b.contestant), []vg.Point{{X: x(0), Y: low}, {X: end, Y: low}, {X: end, Y: high}, {X: x(0), Y: high}})
		canvas.FillText(text, vg.Point{X: end + 4, Y: (low + high) / 2}, b.text())
	}
}

// text returns the label next to a bar.
func (b bar) text() string {
	text := fmt.Sprintf("%.3g", b.ratio)
	if b.ratio > maxRatio {
		return "→ " + text
	}
	return text
}

func (s *section) drawBars(bars []bar) error {
	peer := s.groups[0].peer()
	p := newPlot(s.scenario + ": ratio to " + peer + ", shorter is better")
	c := newBarChart(bars)
	p.Add(c, legendRow{namesOf(bars)})
	p.X.Min, p.X.Max = 0, c.limit
	p.Y.Min, p.Y.Max = 0, c.height
	p.X.Tick.Marker = ratioTicks{}
	p.Y.Tick.Marker = plot.ConstantTicks{}
	p.Y.Tick.Length, p.X.Padding, p.Y.Padding = 0, 0, 0
	return s.finish(p, fileName(s.scenario), s.scenario+": ratios to "+peer, vg.Points(c.height+aroundBars))
}

// ratioTicks places ticks at round ratios, few enough to be readable.
type ratioTicks struct{}

// Ticks implements plot.Ticker.
func (ratioTicks) Ticks(_, high float64) []plot.Tick {
	const step = 0.25
	var ticks []plot.Tick
	for i := range int(min(high, maxRatio)/step) + 1 {
		tick := plot.Tick{Value: float64(i) * step}
		if every := 1 + int(high); i%every == 0 {
			tick.Label = fmt.Sprintf("%.3g", tick.Value)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}

// namesOf returns the contestants in bars, in display order.
func namesOf(bars []bar) []string {
	var names []string
	for _, b := range bars {
		if !slices.Contains(names, b.contestant) {
			names = append(names, b.contestant)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return place(a) - place(b) })
	return names
}
