package top

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/millrace-dev/millrace/debug"
)

// frame is the number of lines that cannot show rows: two lines above the tabs, the tabs, the column names,
// and two lines at the bottom.
const frame = 6

// No style relies on colour alone: each also uses bold, reverse video or a marker.
var (
	normal   = tcell.StyleDefault
	bold     = tcell.StyleDefault.Bold(true)
	faint    = tcell.StyleDefault.Dim(true)
	selected = tcell.StyleDefault.Reverse(true)
	alarming = tcell.StyleDefault.Bold(true).Foreground(tcell.ColorRed)
)

var keysHelp = []string{
	"Up Down PgUp PgDn Home End   move, also with k j g G",
	"Enter                        open the row",
	"Esc, Backspace               back; clears a filter first",
	"Tab, Left, Right, 1 to 9     another tab",
	"/                            filter rows; Enter keeps the filter, Esc drops it",
	"s r                          sort by the next column, reverse the order",
	"p, Space                     pause or resume",
	"? h                          this help",
	"q, Ctrl-C                    quit",
	"",
	"Rows in trouble start with ! and come first unless you sort: an informer",
	"that is not synced, fails, or has received nothing for two minutes, a lag of",
	"more than a second, a controller that is not running, or whose work runs or",
	"waits for a minute, or occupies all workers for five seconds while keys",
	"wait, an object that is being deleted; a tab with ! has such rows. The line",
	"above the last one shows details of the current row, with its cells in full.",
	"EV/S is changes per second, REC/S reconciles; BEHIND is the age of the oldest",
	"change that is not fully handled.",
}

func (d *display) draw() {
	s := d.screen
	s.Clear()
	width, height := s.Size()
	here := d.top()
	d.put(0, 0, width, d.title(), bold)
	if d.failed != nil || d.late() {
		d.put(0, 1, width, d.trouble(), alarming)
	} else {
		d.put(0, 1, width, d.summary(), normal)
	}
	d.drawTabs(2, width, here)
	switch {
	case d.help:
		for n, line := range keysHelp {
			if 4+n < height-1 {
				d.put(0, 4+n, width, line, normal)
			}
		}
	case here.shown:
		d.drawTable(3, width, height, here)
	case d.failed == nil:
		d.put(0, 4, width, "Asking ...", faint)
	}
	d.drawFoot(height-1, width, here)
	s.Show()
}

func (d *display) put(x, y, width int, text string, style tcell.Style) {
	d.screen.PutStrStyled(x, y, cut(plain(text), width-x), style)
}

// title returns the path to the current place.
func (d *display) title() string {
	var names []string
	for _, s := range d.stack {
		names = append(names, s.place.title)
	}
	return strings.Join(names, " > ")
}

// summary describes the process on one line.
func (d *display) summary() string {
	if d.status == nil {
		return ""
	}
	p, m := &d.status.Process, &d.status.Memory
	text := fmt.Sprintf("%s (%d) up %s  heap %s  %d goroutines  %d objects", p.Program, p.PID, short(p.Uptime), sizeText(float64(m.HeapBytes)), m.Goroutines, m.CachedCount)
	if e := d.status.Election; e != nil {
		text += "  leader: " + orDash(e.Holder)
	}
	return text + "  " + d.status.At.Local().Format("15:04:05")
}

// trouble explains why there is no new data.
func (d *display) trouble() string {
	since := "There has been no response yet"
	if !d.good.IsZero() {
		since = "No response since " + d.good.Local().Format("15:04:05")
	}
	if d.failed == nil {
		return "! " + since + ": asked " + d.at().Sub(d.asked).Round(time.Second).String() + " ago"
	}
	text := d.failed.Error()
	if u, ok := errors.AsType[*url.Error](d.failed); ok { // the address is in the title
		text = u.Err.Error()
	}
	if r, ok := errors.AsType[*debug.RefusedError](d.failed); ok {
		since, text = "The process refuses", r.Text
	}
	return "! " + since + ": " + text
}

func (d *display) drawTabs(y, width int, here *spot) {
	x := 0
	for n, t := range here.place.tabs {
		style := normal
		if n == here.tab {
			style = selected
		}
		mark := ""
		if t.trouble != nil && d.status != nil && t.trouble(d.status) {
			mark = "!"
		}
		text := fmt.Sprintf(" %d %s%s ", n+1, t.name, mark)
		d.put(x, y, width, text, style)
		x += uniseg.StringWidth(text) + 1
	}
}

func (d *display) drawTable(y, width, height int, here *spot) {
	d.settle()
	t := d.rows(here)
	if t.columns == nil {
		d.drawText(y+1, width, height, here, &t)
		return
	}
	widths := t.widths(width - 2) // two columns for the marker
	cells := make([]cell, len(t.columns))
	for n, c := range t.columns {
		cells[n].text = c.name
	}
	d.drawRow(y, width, &t, widths, cells, "  ", bold)
	if here.by >= 0 {
		d.markSorted(y, widths, here)
	}
	if len(t.rows) == 0 {
		text := "none"
		if here.filter != "" {
			text = "none with " + here.filter
		}
		d.put(2, y+1, width, text, faint)
	}
	about := t.note
	if here.line < len(t.rows) {
		about = cmp.Or(t.rows[here.line].about, t.whole(here.line, widths), t.note)
	}
	d.put(0, height-2, width, about, normal)
	page := height - frame
	here.first = scrolled(here.first, here.line, page, len(t.rows))
	for n := here.first; n < min(len(t.rows), here.first+page); n++ {
		mark, style := "  ", normal
		if t.rows[n].trouble {
			mark, style = "! ", alarming
		}
		if n == here.line {
			style = selected
			if mark == "  " {
				mark = "> "
			}
		}
		d.drawRow(y+1+n-here.first, width, &t, widths, t.rows[n].cells, mark, style)
	}
}

// scrolled returns the first line to show, such that the cursor is visible.
func scrolled(first, line, page, all int) int {
	first = min(first, line)
	first = max(first, line-page+1)
	return max(0, min(first, all-page))
}

func (d *display) drawRow(y, width int, t *table, widths []int, cells []cell, mark string, style tcell.Style) {
	var b strings.Builder
	b.WriteString(mark)
	for n, w := range widths {
		if w == 0 {
			continue
		}
		if n > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		text := cells[n].text
		if t.columns[n].ends {
			text = cutMiddle(text, w)
		}
		b.WriteString(fit(text, w, t.columns[n].right))
	}
	text := b.String()
	if style == selected {
		text = fit(text, width, false)
	}
	d.screen.PutStrStyled(0, y, text, style)
}

// markSorted underlines the name of the sort column.
func (d *display) markSorted(y int, widths []int, here *spot) {
	x := 2
	for n, w := range widths {
		if n == here.by && w > 0 {
			d.screen.PutStrStyled(x, y, fit(here.table.columns[n].name, w, here.table.columns[n].right), bold.Underline(true))
			return
		}
		if w > 0 {
			x += w + gap
		}
	}
}

// drawText draws lines of text, wrapping long ones.
func (d *display) drawText(y, width, height int, here *spot, t *table) {
	var lines []string
	for _, r := range t.rows {
		lines = append(lines, wrapped(r.cells[0].text, width)...)
	}
	page := max(0, height-frame)
	here.line = min(max(here.line, 0), max(0, len(lines)-page))
	here.cursor = ""
	for n, line := range lines[here.line:min(len(lines), here.line+page)] {
		d.put(0, y+n, width, line, normal)
	}
}

// wrapped breaks text at spaces into lines of the given width.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, each := range strings.SplitAfter(text, " ") {
		if line != "" && uniseg.StringWidth(line)+uniseg.StringWidth(strings.TrimRight(each, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), "  "
		}
		line += each
	}
	return append(lines, line)
}

func (d *display) drawFoot(y, width int, here *spot) {
	text := "Enter go  Esc back  Tab next  / filter  s sort  p pause  ? help  q quit"
	switch {
	case d.typing:
		text = "/" + here.filter + "_"
	case here.filter != "":
		text = "only with " + here.filter + "  (Esc shows all)"
	}
	if d.paused {
		text = "PAUSED  " + text
	}
	d.put(0, y, width, text, faint)
}
