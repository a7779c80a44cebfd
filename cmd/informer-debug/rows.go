package main

import (
	"io"
	"strings"
	"text/tabwriter"
)

// table aligns columns.
type table struct {
	w         io.Writer
	header    []string
	rows      [][]string
	noHeaders bool
}

func (g *getter) table(header ...string) *table {
	return &table{w: g.stdout, header: header, noHeaders: g.noHeaders}
}

// row adds a line. What it has more than the header is left out.
func (t *table) row(cells ...string) { t.rows = append(t.rows, cells[:len(t.header)]) }

// write writes all lines. What others say cannot break them.
func (t *table) write() error {
	tabs := tabwriter.NewWriter(t.w, 0, 0, 3, ' ', 0)
	rows := t.rows
	if !t.noHeaders {
		rows = append([][]string{t.header}, rows...)
	}
	for _, cells := range rows {
		clean := make([]string, len(cells))
		for n, cell := range cells {
			clean[n] = strings.ReplaceAll(oneLine(cell), "\t", " ")
		}
		if _, err := io.WriteString(tabs, strings.Join(clean, "\t")+"\n"); err != nil {
			return err
		}
	}
	return tabs.Flush()
}
