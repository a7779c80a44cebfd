package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// legendRow is a one-line legend under the title. The library's built-in legend would cover data.
type legendRow struct{ names []string }

// legendHeight is the height of a legendRow.
const legendHeight = 16

// Plot draws the legend above the data.
func (l legendRow) Plot(canvas draw.Canvas, p *plot.Plot) {
	style := p.Legend.TextStyle
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	const box = 8
	at := vg.Point{X: canvas.Min.X, Y: canvas.Max.Y + legendHeight/2}
	for _, name := range l.names {
		low, high := at.Y-box/2, at.Y+box/2
		canvas.FillPolygon(colourOf(name), []vg.Point{{X: at.X, Y: low}, {X: at.X + box, Y: low}, {X: at.X + box, Y: high}, {X: at.X, Y: high}})
		at.X += box + 4
		canvas.FillText(style, at, name)
		at.X += wider*style.Width(name) + 12
	}
}
