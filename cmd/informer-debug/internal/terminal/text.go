package terminal

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Text consists of lines with aligned cells. Untrusted text cannot break the lines.
type Text struct {
	b    strings.Builder
	tabs *tabwriter.Writer
}

// NewText returns an empty Text.
func NewText() *Text {
	t := &Text{}
	t.tabs = tabwriter.NewWriter(&t.b, 0, 0, 3, ' ', 0)
	return t
}

// Line adds a line. Without cells, it adds an empty line and starts a new alignment.
func (t *Text) Line(cells ...string) {
	for n := range cells {
		cells[n] = strings.ReplaceAll(OneLine(cells[n]), "\t", " ")
	}
	fmt.Fprintln(t.tabs, strings.Join(cells, "\t")) // never fails: it writes to memory
	if len(cells) == 0 {
		_ = t.tabs.Flush()
	}
}

// Write writes a headline and all lines.
func (t *Text) Write(w io.Writer, headline string) error {
	_ = t.tabs.Flush()
	_, err := io.WriteString(w, OneLine(headline)+"\n"+t.b.String())
	return err
}

// Print writes all lines.
func (t *Text) Print(w io.Writer) error {
	_ = t.tabs.Flush()
	_, err := io.WriteString(w, t.b.String())
	return err
}
