package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// text is lines of cells, in columns that are as wide as they have to be. What others say
// cannot break it.
type text struct {
	b    strings.Builder
	tabs *tabwriter.Writer
}

func newText() *text {
	t := &text{}
	t.tabs = tabwriter.NewWriter(&t.b, 0, 0, 3, ' ', 0)
	return t
}

// line adds a line; without cells, an empty one, behind which columns begin anew.
func (t *text) line(cells ...string) {
	for n := range cells {
		cells[n] = strings.ReplaceAll(oneLine(cells[n]), "\t", " ")
	}
	fmt.Fprintln(t.tabs, strings.Join(cells, "\t")) // it writes to memory
	if len(cells) == 0 {
		_ = t.tabs.Flush()
	}
}

// write writes a headline and the lines at once.
func (t *text) write(w io.Writer, headline string) error {
	_ = t.tabs.Flush()
	_, err := io.WriteString(w, oneLine(headline)+"\n"+t.b.String())
	return err
}

// print writes the lines at once.
func (t *text) print(w io.Writer) error {
	_ = t.tabs.Flush()
	_, err := io.WriteString(w, t.b.String())
	return err
}
