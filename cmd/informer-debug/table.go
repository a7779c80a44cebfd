package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/millrace-dev/millrace/sharedinformer"
)

// maxKeyWidth bounds the column of keys; longer ones push their line to the
// right.
const maxKeyWidth = 63

// widths are those of the columns that depend on the objects.
type widths struct{ key, rv int }

// fit makes the columns wide enough for one more object.
func (w *widths) fit(key, rv string) {
	w.key = max(w.key, min(len(key), maxKeyWidth))
	w.rv = max(w.rv, len(rv))
}

// tablePrinter writes one line for each change:
//
//	symbol time age key rv, four latencies, uid and changed fields (wide)
type tablePrinter struct {
	w       io.Writer
	colors  palette
	wide    bool
	header  bool
	measure func() widths

	begun bool
	widths
}

func (p *tablePrinter) print(c *change) error {
	key, rv := identity(c.object)
	header := ""
	if !p.begun {
		p.begun, p.widths = true, p.measure()
		p.fit("KEY", "RV")
		p.fit(key, rv)
		if p.header {
			header = p.headerLine()
		}
	}
	p.fit(key, rv)
	symbol, color := symbolOf(c)
	line := fmt.Sprintf("%s %s  %5s  %-*s  %*s  %s", p.colors.paint(color, symbol), c.at.Format(clock), c.age(), p.key, key, p.rv, rv, p.latencies(c))
	tail, err := p.tail(c)
	if err != nil {
		return err
	}
	_, err = io.WriteString(p.w, header+strings.TrimRight(line+tail, " ")+"\n")
	return err
}

func (p *tablePrinter) headerLine() string {
	line := fmt.Sprintf("  %-12s  %5s  %-*s  %*s  %6s  %6s  %6s  %7s", "TIME", "AGE", p.key, "KEY", p.rv, "RV", "DECODE", "QUEUE", "APPLY", "DELIVER")
	if p.wide {
		line += fmt.Sprintf("  %-36s  %s", "UID", "CHANGED")
	}
	return p.colors.paint(dim, line) + "\n"
}

// latencies fills four columns.
func (p *tablePrinter) latencies(c *change) string {
	l := c.latency
	if !l.known {
		text := "initial"
		if !c.initial {
			text = "-"
		}
		return p.colors.paint(dim, text) + strings.Repeat(" ", 31-utf8.RuneCountInString(text))
	}
	return fmt.Sprintf("%6s  %6s  %6s  %7s", short(l.decode), short(l.queue), short(l.apply), short(l.deliver))
}

// tail is what follows the columns that are always there.
func (p *tablePrinter) tail(c *change) (string, error) {
	var text string
	if p.wide {
		differences, err := c.differences()
		if err != nil {
			return "", err
		}
		text = fmt.Sprintf("  %-36s  %s", c.object.GetUID(), summarize(differences, !c.confidential()))
	}
	if c.missed {
		text = strings.TrimRight(text, " ") + "  " + p.colors.paint(dim, "found missing; this is the last known state")
	}
	return text, nil
}

func symbolOf(c *change) (symbol, color string) {
	switch {
	case c.kind == sharedinformer.Add && c.initial:
		return "+", dim
	case c.kind == sharedinformer.Add:
		return "+", green
	case c.kind == sharedinformer.Delete:
		return "-", red
	}
	return "~", yellow
}
