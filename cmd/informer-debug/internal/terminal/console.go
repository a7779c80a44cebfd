package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// Clock is the format for the time of day.
const Clock = "15:04:05.000"

// Console writes messages to stderr. Each line is written with a single Write, so lines from several
// goroutines do not mix. A nil Console discards messages.
type Console struct {
	w       io.Writer
	colors  Palette
	verbose bool
}

// NewConsole returns a console on stderr. If verbose is true, it shows requests.
func NewConsole(s Streams, verbose bool) *Console {
	return &Console{w: s.Err, colors: NewPalette(s.ErrTerminal, s.Env), verbose: verbose}
}

// line writes one line. It ignores errors, since there is nowhere to report them.
func (c *Console) line(color, symbol string, at time.Time, text string) {
	if c == nil {
		return
	}
	_, _ = io.WriteString(c.w, c.colors.Paint(color, symbol+" "+at.Format(Clock)+"  "+OneLine(text))+"\n")
}

// State reports an ordinary step.
func (c *Console) State(at time.Time, format string, args ...any) {
	c.line(Dim, "·", at, fmt.Sprintf(format, args...))
}

// Trouble reports a failure or a warning.
func (c *Console) Trouble(at time.Time, format string, args ...any) {
	c.line(Red, "!", at, fmt.Sprintf(format, args...))
}

// Fault reports a fault injected by the demo.
func (c *Console) Fault(at time.Time, format string, args ...any) {
	c.line(Cyan, "*", at, fmt.Sprintf(format, args...))
}

// Logger returns a logger for the client. It prints the server's warnings with [Console.Trouble], and
// requests if the console is verbose.
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
