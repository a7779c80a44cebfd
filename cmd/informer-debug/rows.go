package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table aligns columns. They are as wide as what the first write has; what is wider later
// pushes its line to the right.
type table struct {
	w         io.Writer
	header    []string
	noHeaders bool
	rows      [][]string // that are not written yet
	widths    []int      // empty before the first write
}

// row adds a line. What it has more than the header is left out. What others say cannot break
// the line.
func (t *table) row(cells ...string) {
	clean := make([]string, len(t.header))
	for n := range clean {
		clean[n] = strings.ReplaceAll(oneLine(cells[n]), "\t", " ")
	}
	t.rows = append(t.rows, clean)
}

// write writes the lines since the last time, and first the header.
func (t *table) write() error {
	if t.widths == nil {
		if !t.noHeaders {
			rows := t.rows
			t.rows = nil
			t.row(t.header...)
			t.rows = append(t.rows, rows...)
		}
		t.widths = make([]int, len(t.header))
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
	_, err := io.WriteString(t.w, b.String())
	return err
}
