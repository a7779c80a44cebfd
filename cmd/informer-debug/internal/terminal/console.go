package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// Clock is how times of day are written everywhere.
const Clock = "15:04:05.000"

// Console writes what is not data, on stderr. Each line is one Write, so that
// lines of several goroutines do not mix. A nil console is silent.
type Console struct {
	w       io.Writer
	colors  Palette
	verbose bool
}

// NewConsole returns a console on stderr. Requests show on it where it is verbose.
func NewConsole(s Streams, verbose bool) *Console {
	return &Console{w: s.Err, colors: NewPalette(s.ErrTerminal, s.Env), verbose: verbose}
}

// line writes one line. That stderr is gone cannot be reported anywhere.
func (c *Console) line(color, symbol string, at time.Time, text string) {
	if c == nil {
		return
	}
	_, _ = io.WriteString(c.w, c.colors.Paint(color, symbol+" "+at.Format(Clock)+"  "+OneLine(text))+"\n")
}

// State tells of an ordinary step.
func (c *Console) State(at time.Time, format string, args ...any) {
	c.line(Dim, "·", at, fmt.Sprintf(format, args...))
}

// Trouble tells of a failure or a warning.
func (c *Console) Trouble(at time.Time, format string, args ...any) {
	c.line(Red, "!", at, fmt.Sprintf(format, args...))
}

// Fault tells what the demonstration does to its server.
func (c *Console) Fault(at time.Time, format string, args ...any) {
	c.line(Cyan, "*", at, fmt.Sprintf(format, args...))
}

// Logger shows what the client logs: warnings of the server as trouble, and
// with --verbose each request.
func (c *Console) Logger() *slog.Logger { return slog.New(logHandler{console: c}) }

type logHandler struct {
	console *Console
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
		h.console.Trouble(r.Time, "%s", b.String())
	} else {
		h.console.State(r.Time, "%s", b.String())
	}
	return nil
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

func (h logHandler) WithGroup(string) slog.Handler { return h }
