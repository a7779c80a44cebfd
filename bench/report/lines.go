package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// lineHeight is the height of line charts.
const lineHeight = 7 * vg.Centimeter

// line is a contestant in a line chart.
type line struct {
	contestant string
	points     plotter.XYs
}

// drawGrowth plots the cost per object against the number of objects in the growth scenario.
func (s *section) drawGrowth() error {
	if s.scenario != "growth" {
		return nil
	}
	for _, metric := range []string{results.CPUPerObject, results.WallPerObject} {
		lines := s.grown(metric)
		if len(lines) == 0 {
			continue
		}
		p := newPlot("growth: " + results.Title(metric))
		p.X.Label.Text = "objects"
		p.X.Tick.Marker = formattedTicks{metric: "objects_per_s", suffix: "/s"} // 50k
		p.Y.Tick.Marker = formattedTicks{metric: metric, after: "  "}
		alt := results.Title(metric) + " over the number of objects"
		if err := s.drawLines(p, lines, fileName(s.scenario, metric), alt, true); err != nil {
			return err
		}
	}
	return nil
}

// grown returns a line for each contestant that was measured at more than one number of objects. All other
// parameters must be those of the first group.
func (s *section) grown(metric string) []line {
	var lines []line
	rest := func(p results.Params) results.Params {
		p = maps.Clone(p)
		delete(p, results.Objects)
		return p
	}
	first := rest(s.groups[0].params)
	for _, g := range s.groups {
		if other := rest(g.params); !first.Has(other) || !other.Has(first) {
			continue
		}
		for _, row := range g.rows {
			stat, ok := row.Metrics[metric]
			if !ok {
				continue
			}
			i := slices.IndexFunc(lines, func(l line) bool { return l.contestant == row.Contestant })
			if i < 0 {
				i = len(lines)
				lines = append(lines, line{contestant: row.Contestant})
			}
			lines[i].points = append(lines[i].points, plotter.XY{X: float64(g.params[results.Objects]), Y: stat.Median})
		}
	}
	for _, l := range lines {
		slices.SortFunc(l.points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	}
	return slices.DeleteFunc(lines, func(l line) bool { return len(l.points) < 2 })
}

// drawSeries draws each time series.
func (s *section) drawSeries() error {
	for _, g := range s.groups {
		names := map[string]results.Stat{}
		for _, row := range g.rows {
			for name := range row.Series {
				names[name] = results.Stat{}
			}
		}
		for _, name := range results.Ordered(names) {
			if err := s.drawOneSeries(g, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *section) drawOneSeries(g group, name string) error {
	var lines []line
	for _, row := range g.rows {
		l := line{contestant: row.Contestant}
		for _, point := range row.Series[name] {
			l.points = append(l.points, plotter.XY{X: point.T, Y: point.V})
		}
		if len(l.points) > 1 {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	title := name
	if name == results.RSSOverTime {
		title = "resident memory"
	}
	own := s.own(g).String()
	p := newPlot(strings.TrimSuffix(s.scenario+": "+title+" over time, "+own, ", "))
	p.X.Label.Text = "seconds"
	p.Y.Tick.Marker = formattedTicks{metric: name, after: "  "}
	return s.drawLines(p, lines, fileName(s.scenario, name, own), title+" over time", false)
}

// drawLines draws lines on an axis that starts at zero, so that heights can be compared. It marks the data
// points if there are only a few.
func (s *section) drawLines(p *plot.Plot, lines []line, name, alt string, marks bool) error {
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal = draw.LineStyle{Color: faint(), Width: thin}
	p.Add(grid)
	var names []string
	for _, l := range lines {
		drawn, points, err := plotter.NewLinePoints(l.points)
		if err != nil {
			return fmt.Errorf("draw %s: %s: %w", name, l.contestant, err)
		}
		drawn.LineStyle = draw.LineStyle{Color: colourOf(l.contestant), Width: 2}
		p.Add(drawn)
		if marks {
			points.GlyphStyle = draw.GlyphStyle{Color: colourOf(l.contestant), Radius: 3, Shape: draw.CircleGlyph{}}
			p.Add(points)
		}
		names = append(names, l.contestant)
	}
	p.X.Min, p.Y.Min = 0, 0
	p.Y.Max *= 1.1
	p.Add(legendRow{names})
	return s.finish(p, name, alt, lineHeight)
}

// formattedTicks places the library's ticks, labelled in the format used in the tables.
type formattedTicks struct {
	metric string
	suffix string // removed from labels
	after  string // spaces that keep a wide label off the axis
}

// Ticks implements plot.Ticker.
func (f formattedTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strings.TrimSuffix(results.Format(f.metric, ticks[i].Value), f.suffix) + f.after
		}
	}
	return ticks
}
