package flight

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-dev/millrace/object"
)

// Dump writes the events as text, one per line, oldest first.
func (r *Recorder) Dump(w io.Writer) error {
	return r.dump(w, -1)
}

func writeLines(w io.Writer, entries []Entry) error {
	b := bufio.NewWriter(w)
	for i := range entries {
		b.WriteString(entries[i].String())
		b.WriteByte('\n')
	}
	return b.Flush()
}

// String formats an entry as one line: time, track, event.
func (e *Entry) String() string {
	return fmt.Sprintf("%s %s %s: %s", e.At.Format("15:04:05.000000"), e.Role, printable(e.Name), e.What())
}

// printable escapes line breaks and terminal control characters.
func printable(s string) string {
	bad := func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }
	if !strings.ContainsFunc(s, bad) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !bad(r):
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// What returns a one-line description of the event, without its time and track.
func (e *Event) What() string {
	l := line(e.Kind.String())
	if e.Key != (object.Key{}) {
		l.add("%s", object.FormatKey(e.Key))
	}
	if e.Change != "" {
		l.add("%s", e.Change)
	}
	if e.Count > 1 || e.Kind == Replaced {
		l.add("%d", e.Count)
	}
	if e.RV != "" {
		l.add("rv %s", e.RV)
	}
	if e.Attempt > 1 {
		l.add("attempt %d", e.Attempt)
	}
	if e.About != (object.Key{}) && e.About != e.Key {
		l.add("of %s", object.FormatKey(e.About))
	}
	if e.Outcome != "" {
		l.add("%s", e.Outcome)
	}
	if e.Took > 0 {
		l.add("%s", took(e.Kind, e.Took))
	}
	if e.Received > 0 {
		l.add("%s after it was read", round(e.Received))
	}
	if e.Text != "" {
		l += line(": " + e.Text)
	}
	return printable(string(l))
}

// line is a sequence of words separated by spaces.
type line string

func (l *line) add(format string, args ...any) { *l += line(" " + fmt.Sprintf(format, args...)) }

func took(k Kind, d time.Duration) string {
	if k == Taken || k == Asked {
		return "after " + round(d)
	}
	return "in " + round(d)
}

// round rounds to about three significant digits.
func round(d time.Duration) string {
	to := time.Nanosecond
	for to*1000 <= d {
		to *= 10
	}
	return d.Round(to).String()
}
