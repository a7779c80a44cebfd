package view

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// maxKeyWidth limits the width of the key column. Longer keys push the rest of the line to the right.
const maxKeyWidth = 63

// widths contains the column widths that depend on the objects.
type widths struct{ key, rv int }

// fit widens the columns to make room for another object.
func (w *widths) fit(key, rv string) {
	w.key = max(w.key, min(len(key), maxKeyWidth))
	w.rv = max(w.rv, len(rv))
}

// tablePrinter writes one line per change:
//
//	symbol time age key rv, four latencies or five moments, uid and changed fields (wide)
type tablePrinter struct {
	w       io.Writer
	colors  terminal.Palette
	wide    bool
	header  bool
	diff    bool
	stage   bool
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
	line := fmt.Sprintf("%s %s  %5s  %-*s  %*s  %s", p.colors.Paint(color, symbol), c.at.Format(terminal.Clock), c.age(), p.key, key, p.rv, rv, p.latencies(c))
	tail, err := p.tail(c)
	if err != nil {
		return err
	}
	text := header + strings.TrimRight(line+tail, " ") + "\n"
	if p.diff {
		below, err := p.below(c)
		if err != nil {
			return err
		}
		text += below
	}
	_, err = io.WriteString(p.w, text)
	return err
}

// mostBelow is the maximum number of changed fields that --diff shows per update.
const mostBelow = 20

// below returns a line per changed field of an update.
func (p *tablePrinter) below(c *change) (string, error) {
	differences, err := c.differences()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for n, d := range differences {
		if n == mostBelow {
			fmt.Fprintf(&b, "    and %d more\n", len(differences)-n)
			break
		}
		fmt.Fprintf(&b, "    %s\n", terminal.OneLine(d.Text(!c.confidential())))
	}
	return b.String(), nil
}

func (p *tablePrinter) headerLine() string {
	line := fmt.Sprintf("  %-12s  %5s  %-*s  %*s  ", "TIME", "AGE", p.key, "KEY", p.rv, "RV")
	if p.stage {
		line += fmt.Sprintf("%-15s  %-15s  %-15s  %-15s  %-15s", "RECEIVED", "DECODED", "QUEUED", "APPLIED", "TOLD")
	} else {
		line += fmt.Sprintf("%6s  %6s  %6s  %7s", "DECODE", "QUEUE", "APPLY", "DELIVER")
	}
	if p.wide {
		line += fmt.Sprintf("  %-36s  %s", "UID", "CHANGED")
	}
	return p.colors.Paint(terminal.Dim, line) + "\n"
}

// momentClock is the format for --stage. Stages take microseconds.
const momentClock = "15:04:05.000000"

// latencies returns the four latency columns, or the five time columns of --stage.
func (p *tablePrinter) latencies(c *change) string {
	l, width := c.latency, 31
	if p.stage {
		width = 5*len(momentClock) + 4*2
	}
	if !l.known {
		text := "initial"
		if !c.initial {
			text = "-"
		}
		return p.colors.Paint(terminal.Dim, text) + strings.Repeat(" ", width-utf8.RuneCountInString(text))
	}
	if p.stage {
		var texts []string
		for _, at := range l.moments() {
			texts = append(texts, at.Local().Format(momentClock))
		}
		return strings.Join(texts, "  ")
	}
	return fmt.Sprintf("%6s  %6s  %6s  %7s", terminal.Duration(l.decode), terminal.Duration(l.queue), terminal.Duration(l.apply), terminal.Duration(l.deliver))
}

// tail returns the optional text after the fixed columns.
func (p *tablePrinter) tail(c *change) (string, error) {
	var text string
	if p.wide {
		differences, err := c.differences()
		if err != nil {
			return "", err
		}
		text = terminal.OneLine(fmt.Sprintf("  %-36s  %s", c.object.GetUID(), diff.Summarize(differences, !c.confidential())))
	}
	if c.missed {
		text = strings.TrimRight(text, " ") + "  " + p.colors.Paint(terminal.Dim, "missed deletion; this is the last known state")
	}
	return text, nil
}

func symbolOf(c *change) (symbol, color string) {
	switch {
	case c.kind == sharedinformer.Add && c.initial:
		return "+", terminal.Dim
	case c.kind == sharedinformer.Add:
		return "+", terminal.Green
	case c.kind == sharedinformer.Delete:
		return "-", terminal.Red
	}
	return "~", terminal.Yellow
}
