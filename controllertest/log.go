package controllertest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// newLogger returns a logger that writes warnings and errors to the test's log, with
// the time since the test began, and nothing after the test has ended.
func newLogger(t testing.TB) *slog.Logger {
	out := &testLog{out: t.Output()}
	t.Cleanup(out.close)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey { // a bubble's time begins at midnight
				return slog.String(slog.TimeKey, a.Value.Time().UTC().Format("15:04:05.000"))
			}
			return a
		},
	}))
}

// testLog is the log of a test until it is closed. A test's own log panics when it is
// written to after the end.
type testLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = io.Discard
}
