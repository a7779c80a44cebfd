package top

import (
	"context"
	"fmt"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/millrace-dev/millrace/debug"
)

// Options configures a screen. The zero value is ready to use.
type Options struct {
	Called   string        // the name of the process
	Interval time.Duration // time between refreshes; the default is a second
}

const (
	patience  = 10 * time.Second // request timeout
	lateAfter = 3 * time.Second  // delay before a missing response is reported
)

// Run shows a process on s until the user quits or ctx is done. The caller initializes the screen and
// finishes it. If the process does not respond, Run says so on the screen and retries.
func Run(ctx context.Context, s tcell.Screen, process *debug.Client, opts Options) {
	if opts.Interval <= 0 {
		opts.Interval = time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	events, quit := make(chan tcell.Event), make(chan struct{})
	answers := make(chan answer, 1) // at most one request is in flight
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.ChannelEvents(events, quit)
	}()
	d := &display{screen: s, stack: []*spot{{place: home(opts.Called), by: -1}}, at: time.Now}
	a := &asker{process: process, rates: rates{}, keep: max(time.Minute, 3*opts.Interval)}
	asking := false
	var late <-chan time.Time // fires when the response is late; nil if none is pending
	ask := func() {
		if asking || d.paused && d.top().shown {
			return
		}
		asking, d.asked, late = true, d.at(), time.After(lateAfter)
		here := d.top()
		load, number := here.place.tabs[here.tab].load, here.tab
		go func() {
			limited, done := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no response within %s", patience))
			defer done()
			t, err := load(limited, a)
			answers <- answer{here, number, t, err, a.status}
		}()
	}
	look := time.NewTicker(opts.Interval)
	defer look.Stop()
	ask()
	for !d.left && ctx.Err() == nil {
		d.draw()
		select {
		case e, ok := <-events:
			if !ok {
				d.left = true
				break
			}
			if d.handle(e) {
				ask()
			}
		case <-look.C:
			ask()
		case <-late: // redraw to show the delay
		case got := <-answers:
			asking, d.asked, late = false, time.Time{}, nil
			if d.take(got) {
				ask() // the user has navigated elsewhere in the meantime
			}
		case <-ctx.Done():
		}
	}
	cancel()
	close(quit)
	if asking {
		<-answers
	}
	<-ended
}

// answer is a table that has been loaded.
type answer struct {
	from   *spot
	tab    int
	table  table
	err    error
	status *debug.Status
}

// spot is a place on the stack, with its display state.
type spot struct {
	place   *place
	tab     int
	table   table // as loaded
	shown   bool  // the table has been loaded
	cursor  string
	line    int // of the cursor
	first   int // the line at the top
	by      int // sort column; -1 for none
	reverse bool
	filter  string
}

// display is the state of the screen.
type display struct {
	screen tcell.Screen
	stack  []*spot
	status *debug.Status
	failed error     // error from the last request
	good   time.Time // time of the last response
	asked  time.Time // time of the pending request; zero if there is none
	paused bool
	typing bool // a filter
	help   bool
	left   bool
	at     func() time.Time
}

func (d *display) top() *spot { return d.stack[len(d.stack)-1] }

// take handles an answer, and reports whether another request is needed right away.
func (d *display) take(a answer) bool {
	here := d.top()
	current := a.from == here && a.tab == here.tab
	if d.failed = a.err; a.err == nil {
		d.good, d.status = d.at(), a.status
		if current {
			here.table, here.shown = a.table, true
		}
	}
	return !current
}

// late reports whether the pending response is overdue.
func (d *display) late() bool { return !d.asked.IsZero() && d.at().Sub(d.asked) >= lateAfter }

// handle handles a key, and reports whether another table is needed.
func (d *display) handle(e tcell.Event) bool {
	switch e := e.(type) {
	case *tcell.EventResize:
		d.screen.Sync()
	case *tcell.EventKey:
		switch {
		case e.Key() == tcell.KeyCtrlC:
			d.left = true
		case d.help:
			d.help = false
		case d.typing:
			d.typeFilter(e)
		default:
			return d.press(e)
		}
	}
	return false
}

// typeFilter handles a key while the user is typing a filter.
func (d *display) typeFilter(e *tcell.EventKey) {
	here := d.top()
	switch e.Key() {
	case tcell.KeyEnter:
		d.typing = false
	case tcell.KeyEscape:
		d.typing, here.filter = false, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if r := []rune(here.filter); len(r) > 0 {
			here.filter = string(r[:len(r)-1])
		}
	case tcell.KeyRune:
		const most = 100
		if len(here.filter) < most {
			here.filter += string(e.Rune())
		}
	}
}

func (d *display) press(e *tcell.EventKey) bool {
	here := d.top()
	_, height := d.screen.Size()
	page := max(1, height-frame)
	switch e.Key() {
	case tcell.KeyUp:
		here.line--
	case tcell.KeyDown:
		here.line++
	case tcell.KeyPgUp:
		here.line -= page
	case tcell.KeyPgDn:
		here.line += page
	case tcell.KeyHome:
		here.line = 0
	case tcell.KeyEnd:
		here.line = len(here.table.rows)
	case tcell.KeyTab, tcell.KeyRight:
		return d.turn(1)
	case tcell.KeyBacktab, tcell.KeyLeft:
		return d.turn(-1)
	case tcell.KeyEnter:
		return d.enter()
	case tcell.KeyEscape, tcell.KeyBackspace, tcell.KeyBackspace2:
		return d.back()
	case tcell.KeyRune:
		return d.letter(e.Rune())
	}
	d.follow()
	return false
}

func (d *display) letter(r rune) bool {
	here := d.top()
	switch r {
	case 'q':
		d.left = true
	case '?', 'h':
		d.help = true
	case '/':
		d.typing = true
	case 'p', ' ':
		d.paused = !d.paused
		return !d.paused
	case 's':
		if here.by++; here.by >= len(here.table.columns) {
			here.by = -1
		}
		// Numeric columns are sorted in descending order first.
		here.reverse = here.by >= 0 && here.table.columns[here.by].right
	case 'r':
		here.reverse = !here.reverse
	case 'j':
		here.line++
		d.follow()
	case 'k':
		here.line--
		d.follow()
	case 'g':
		here.line = 0
		d.follow()
	case 'G':
		here.line = len(here.table.rows)
		d.follow()
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if n := int(r - '1'); n < len(here.place.tabs) {
			return d.turn(n - here.tab)
		}
	}
	return false
}

// follow moves the cursor to the current line.
func (d *display) follow() {
	here := d.top()
	rows := d.rows(here).rows
	here.line = min(max(here.line, 0), max(len(rows)-1, 0))
	if here.cursor = ""; here.line < len(rows) {
		here.cursor = rows[here.line].id
	}
}

// turn switches to another tab.
func (d *display) turn(by int) bool {
	here := d.top()
	if by == 0 {
		return false
	}
	n := len(here.place.tabs)
	*here = spot{place: here.place, tab: ((here.tab+by)%n + n) % n, by: -1}
	return true
}

// enter opens the place for the current row.
func (d *display) enter() bool {
	d.settle()
	here := d.top()
	rows := d.rows(here).rows
	if here.line >= len(rows) || rows[here.line].enter == nil {
		return false
	}
	d.follow()
	d.stack = append(d.stack, &spot{place: rows[here.line].enter(), by: -1})
	return true
}

// back removes the filter, or leaves the place.
func (d *display) back() bool {
	here := d.top()
	if here.filter != "" {
		here.filter = ""
		return false
	}
	if len(d.stack) == 1 {
		return false
	}
	d.stack = d.stack[:len(d.stack)-1]
	return true
}

// rows returns the visible rows of a spot, in order.
func (d *display) rows(s *spot) table {
	t := s.table
	t.rows = append([]row(nil), t.rows...)
	t.only(s.filter)
	t.order(s.by, s.reverse)
	return t
}

// settle makes the row under the cursor the current line.
func (d *display) settle() {
	here := d.top()
	rows := d.rows(here).rows
	for n := range rows {
		if here.cursor != "" && rows[n].id == here.cursor {
			here.line = n
			return
		}
	}
	here.line = min(max(here.line, 0), max(len(rows)-1, 0))
}
