package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// clock is how times of day are written everywhere.
const clock = "15:04:05.000"

// console writes what is not data, on stderr. Each line is one Write, so that
// lines of several goroutines do not mix. A nil console is silent.
type console struct {
	w       io.Writer
	colors  palette
	verbose bool
}

func newConsole(s streams, verbose bool) *console {
	return &console{w: s.stderr, colors: newPalette(s.errTerminal, s.env), verbose: verbose}
}

// line writes one line. That stderr is gone cannot be reported anywhere.
func (c *console) line(color, symbol string, at time.Time, text string) {
	if c == nil {
		return
	}
	_, _ = io.WriteString(c.w, c.colors.paint(color, symbol+" "+at.Format(clock)+"  "+oneLine(text))+"\n")
}

// state tells of an ordinary step.
func (c *console) state(at time.Time, format string, args ...any) {
	c.line(dim, "·", at, fmt.Sprintf(format, args...))
}

// trouble tells of a failure or a warning.
func (c *console) trouble(at time.Time, format string, args ...any) {
	c.line(red, "!", at, fmt.Sprintf(format, args...))
}

// fault tells what the demonstration does to its server.
func (c *console) fault(at time.Time, format string, args ...any) {
	c.line(cyan, "*", at, fmt.Sprintf(format, args...))
}

// logger shows what the client logs: warnings of the server as trouble, and
// with --verbose each request.
func (c *console) logger() *slog.Logger { return slog.New(logHandler{console: c}) }

type logHandler struct {
	console *console
	attrs   []slog.Attr
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.console.verbose
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if r.Level >= slog.LevelWarn {
		h.console.trouble(r.Time, "%s", b.String())
	} else {
		h.console.state(r.Time, "%s", b.String())
	}
	return nil
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

func (h logHandler) WithGroup(string) slog.Handler { return h }
