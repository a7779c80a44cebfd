package terminal

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Table aligns columns. The first Write determines their widths; wider cells in later lines push the rest of
// the line to the right.
type Table struct {
	To        io.Writer
	Header    []string
	NoHeaders bool
	rows      [][]string // not written yet
	widths    []int      // empty before the first write
}

// Row adds a line. It drops cells beyond the header, and makes untrusted text safe.
func (t *Table) Row(cells ...string) {
	clean := make([]string, len(t.Header))
	for n := range clean {
		clean[n] = strings.ReplaceAll(OneLine(cells[n]), "\t", " ")
	}
	t.rows = append(t.rows, clean)
}

// Write writes the lines added since the last Write, preceded by the header the first time.
func (t *Table) Write() error {
	if t.widths == nil {
		if !t.NoHeaders {
			rows := t.rows
			t.rows = nil
			t.Row(t.Header...)
			t.rows = append(t.rows, rows...)
		}
		t.widths = make([]int, len(t.Header))
		for _, cells := range t.rows {
			for n, cell := range cells {
				t.widths[n] = max(t.widths[n], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, cells := range t.rows {
		line := ""
		for n, cell := range cells {
			line += cell + strings.Repeat(" ", 3+max(0, t.widths[n]-utf8.RuneCountInString(cell)))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	t.rows = nil
	_, err := io.WriteString(t.To, b.String())
	return err
}
