package top

import (
	"context"
	"fmt"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/millrace-dev/millrace/debug"
)

// Options say how a screen is shown. The zero value works.
type Options struct {
	Called   string        // what the process is called
	Interval time.Duration // between two looks; the default is a second
}

const (
	patience  = 10 * time.Second // how long an answer is waited for
	lateAfter = 3 * time.Second  // how long nothing is said of that
)

// Run shows a process on s, until somebody leaves or ctx is done. The screen is initialized,
// and stays the caller's to finish. A process that does not answer is said to, and asked again.
func Run(ctx context.Context, s tcell.Screen, process *debug.Client, opts Options) {
	if opts.Interval <= 0 {
		opts.Interval = time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	events, quit := make(chan tcell.Event), make(chan struct{})
	answers := make(chan answer, 1) // one is on its way at most
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.ChannelEvents(events, quit)
	}()
	d := &display{screen: s, stack: []*spot{{place: home(opts.Called), by: -1}}, at: time.Now}
	a := &asker{process: process, rates: rates{}}
	asking := false
	var late <-chan time.Time // when the answer is late; nil where none is waited for
	ask := func() {
		if asking || d.paused && d.top().shown {
			return
		}
		asking, d.asked, late = true, d.at(), time.After(lateAfter)
		here := d.top()
		load, number := here.place.tabs[here.tab].load, here.tab
		go func() {
			limited, done := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
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
		case <-late: // drawn again, the screen says so
		case got := <-answers:
			asking, d.asked, late = false, time.Time{}, nil
			if d.take(got) {
				ask() // somebody has gone elsewhere meanwhile
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

// answer is a table that was asked for.
type answer struct {
	from   *spot
	tab    int
	table  table
	err    error
	status *debug.Status
}

// spot is a place on the stack, and how it is being looked at.
type spot struct {
	place   *place
	tab     int
	table   table // as it came
	shown   bool  // there is a table
	cursor  string
	line    int // of the cursor
	first   int // the line at the top
	by      int // the column that rows are sorted by, -1 for none
	reverse bool
	filter  string
}

// display is what is on the screen.
type display struct {
	screen tcell.Screen
	stack  []*spot
	status *debug.Status
	failed error     // what the last question ended with
	good   time.Time // the last answer
	asked  time.Time // the question that has no answer yet; zero if there is none
	paused bool
	typing bool // a filter
	help   bool
	left   bool
	at     func() time.Time
}

func (d *display) top() *spot { return d.stack[len(d.stack)-1] }

// take takes an answer, and reports whether another one is wanted at once.
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

// late reports whether an answer has been waited for too long to say nothing.
func (d *display) late() bool { return !d.asked.IsZero() && d.at().Sub(d.asked) >= lateAfter }

// handle does what a key says, and reports whether another table is wanted.
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

// typeFilter takes a key while the filter is written.
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
		// The most of what is counted is what one looks for.
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

// follow binds the cursor to the row that it has come to.
func (d *display) follow() {
	here := d.top()
	rows := d.rows(here).rows
	here.line = min(max(here.line, 0), max(len(rows)-1, 0))
	if here.cursor = ""; here.line < len(rows) {
		here.cursor = rows[here.line].id
	}
}

// turn goes to another tab.
func (d *display) turn(by int) bool {
	here := d.top()
	if by == 0 {
		return false
	}
	n := len(here.place.tabs)
	*here = spot{place: here.place, tab: ((here.tab+by)%n + n) % n, by: -1}
	return true
}

// enter goes to what is behind the row of the cursor.
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

// back leaves the filter, then the place.
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

// rows are those of a spot that are to be seen, in order.
func (d *display) rows(s *spot) table {
	t := s.table
	t.rows = append([]row(nil), t.rows...)
	t.only(s.filter)
	t.order(s.by, s.reverse)
	return t
}

// settle puts the line where the row of the cursor is now.
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
