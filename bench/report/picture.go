package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// The dimensions of the picture, in pixels.
const (
	pictureWidth  = 760
	labelsEnd     = 268 // labels are right-aligned at this position
	barsBegin     = 280
	barsEnd       = 580 // where a bar with ratio 1 ends
	valuesBegin   = 592
	rowHeight     = 25
	barThickness  = 15
	pictureTop    = 52
	headingHeight = 30
)

// picture draws each of its headlines as a bar for Millrace above a bar of constant length for client-go. It
// returns nothing if no headline was measured.
//
// The picture has no background, and its colours follow the viewer's colour scheme.
func picture(figures []figure, env *results.Env) []byte {
	var rows bytes.Buffer
	y := pictureTop
	for _, part := range []struct {
		part  part
		title string
	}{{memory, "Memory"}, {speed, "Time"}} {
		heading := false
		for _, f := range figures {
			if f.drawn != part.part || f.ratio <= 0 || !f.measured || f.peer != results.ClientGo {
				continue
			}
			if !heading {
				heading = true
				y += headingHeight
				fmt.Fprintf(&rows, `<text class="h" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelsEnd, y-10, part.title)
			}
			drawFigure(&rows, f, y)
			y += rowHeight
		}
	}
	if rows.Len() == 0 {
		return nil
	}
	var svg bytes.Buffer
	fmt.Fprintf(&svg, pictureHead, pictureWidth, y+8, pictureWidth, y+8)
	fmt.Fprintf(&svg, `<text class="t" x="%d" y="20">The same work, Millrace against client-go %s</text>`+"\n", 20, escaped(env.Versions[results.ClientGo]))
	fmt.Fprintf(&svg, `<text class="l" x="20" y="40">Shorter is better. Lists of %d objects; %s, %d cores, median of %d rounds.</text>`+"\n", figures[0].objects, escaped(env.CPU), env.Cores, env.Rounds)
	for i, name := range []string{"Millrace", "client-go"} {
		x := valuesBegin + 80*i
		fmt.Fprintf(&svg, `<rect class="%c" x="%d" y="57" width="10" height="10" rx="2"/><text class="l" x="%d" y="66">%s</text>`+"\n", "mc"[i], x, x+15, name)
	}
	svg.Write(rows.Bytes())
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}

// pictureHead is the start of the file: the size, and the colours for light and dark pages.
const pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="-apple-system,Segoe UI,Liberation Sans,Arial,Helvetica,sans-serif">
<title>Memory and speed of Millrace against client-go</title>
<style>
text{fill:#57606a;font-size:13px}
.t{fill:#1f2328;font-size:16px;font-weight:600}
.h{fill:#1f2328;font-weight:600}
.v{fill:#1f2328;font-variant-numeric:tabular-nums}
.l{font-size:12px}
.m{fill:#2f81f7}
.c{fill:#d0d7de}
@media (prefers-color-scheme:dark){
text{fill:#9198a1}
.t,.h,.v{fill:#f0f6fc}
.c{fill:#3d444d}
}
</style>
`

// drawFigure draws one row. It cuts off a bar that would run into the values; readers can still see the ratio
// from the numbers.
func drawFigure(w *bytes.Buffer, f figure, y int) {
	ratio := f.ratio
	if results.MoreIsBetter(f.metric) {
		ratio = 1 / ratio
	}
	const whole = barsEnd - barsBegin
	length := min(ratio*whole, valuesBegin-barsBegin-4)
	middle := y + barThickness - 3
	fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelsEnd, middle, escaped(f.what))
	fmt.Fprintf(w, `<rect class="c" x="%d" y="%d" width="%d" height="%d" rx="2"/>`, barsBegin, y, whole, barThickness)
	fmt.Fprintf(w, `<rect class="m" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, barsBegin, y, length, barThickness)
	fmt.Fprintf(w, `<text class="v" x="%d" y="%d">%s</text>`, valuesBegin, middle, escaped(results.Format(f.metric, f.ours)))
	fmt.Fprintf(w, `<text x="%d" y="%d">vs %s</text>`+"\n", valuesBegin+66, middle, escaped(results.Format(f.metric, f.theirs)))
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder never fails
	return b.String()
}
