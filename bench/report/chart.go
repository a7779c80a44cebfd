package main

import (
	"bytes"
	"fmt"
	"image/color"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

const (
	chartWidth = 17 * vg.Centimeter
	textSize   = 10
	titleSize  = 11
	thin       = 0.75
	margin     = 6 // in points; doubled on the right, where the last tick's label sticks out

	// wider allows for text that turns out wider than measured because the viewer lacks the font.
	wider = 1.2
)

// ink is the colour of text and axes. An image cannot tell whether its page is light or dark, so charts have
// no background, and all colours must be legible on both: against white and GitHub's dark #0d1117, the
// contrast is at least 4 for ink and 3 for the contestants' colours.
func ink() color.Color { return color.RGBA{0x7a, 0x7f, 0x87, 0xff} }

// faint is the colour of grid lines.
func faint() color.Color { return color.NRGBA{0x7a, 0x7f, 0x87, 0x48} }

// colourOf returns a contestant's colour, which is the same in all charts.
func colourOf(contestant string) color.Color {
	switch contestant {
	case results.Millrace:
		return color.RGBA{0x2f, 0x81, 0xf7, 0xff}
	case results.MillracePacked:
		return color.RGBA{0x1a, 0x8f, 0xa3, 0xff}
	case results.ClientGo:
		return color.RGBA{0xd4, 0x70, 0x2a, 0xff}
	case results.ControllerRuntime:
		return color.RGBA{0xa3, 0x66, 0xe6, 0xff}
	case results.Unmarshal:
		return color.RGBA{0x9a, 0x7d, 0x1f, 0xff}
	case results.Floor:
		return color.RGBA{0x3a, 0x9a, 0x55, 0xff}
	}
	return color.RGBA{0xc2, 0x4a, 0x8a, 0xff}
}

// draw draws a section's charts.
func (s *section) draw() error {
	if bars := s.bars(); len(bars) > 0 {
		if err := s.drawBars(bars); err != nil {
			return err
		}
	}
	if err := s.drawGrowth(); err != nil {
		return err
	}
	return s.drawSeries()
}

// newPlot returns an empty plot in our style.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = title
	p.Title.Padding = vg.Points(legendHeight + 6) // room for the legend, between title and data
	style := func(s *draw.TextStyle, size font.Length) {
		s.Color = ink()
		s.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	}
	style(&p.Title.TextStyle, titleSize)
	style(&p.Legend.TextStyle, textSize)
	p.Legend.Top, p.Legend.Left = true, false
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle = draw.LineStyle{Color: ink(), Width: thin}
		axis.Tick.LineStyle = axis.LineStyle
		style(&axis.Label.TextStyle, textSize)
		style(&axis.Tick.Label, textSize)
	}
	return p
}

// finish draws a plot and adds it to the section.
func (s *section) finish(p *plot.Plot, name, alt string, height vg.Length) error {
	canvas := vgsvg.New(chartWidth, height)
	p.Draw(draw.Crop(draw.New(canvas), margin, -2*margin, margin, -margin))
	var raw bytes.Buffer
	if _, err := canvas.WriteTo(&raw); err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	s.charts = append(s.charts, chart{name: name + ".svg", alt: alt, svg: tidied(raw.Bytes())})
	return nil
}

var (
	family  = regexp.MustCompile(`font-family:[^;"]*`)
	variant = regexp.MustCompile(`font-variant:[^;"]*;`)
)

// tidied replaces the font with common fonts that have the same metrics.
func tidied(svg []byte) []byte {
	svg = family.ReplaceAll(svg, []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	return variant.ReplaceAll(svg, nil)
}

// fileName returns the file name of a chart.
func fileName(parts ...string) string {
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return strings.Map(clean, strings.ToLower(strings.Join(parts, "-")))
}
