package debugtest

import (
	"bytes"
	"strings"
	"sync"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// Transcript is an output stream that may be read while it is being written.
type Transcript struct {
	mu      sync.Mutex
	text    bytes.Buffer
	watched map[string]func() // called once, when the text appears
}

// When calls f once text has been written.
func (w *Transcript) When(text string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched == nil {
		w.watched = map[string]func(){}
	}
	w.watched[text] = f
}

// Write implements io.Writer.
func (w *Transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	for text, f := range w.watched {
		if strings.Contains(w.text.String(), text) {
			delete(w.watched, text)
			f()
		}
	}
	return len(p), nil
}

// String returns everything written so far.
func (w *Transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// Onto returns streams for a test: not a terminal, with an empty environment.
func Onto(stdout, stderr *Transcript) terminal.Streams {
	return terminal.Streams{Out: stdout, Err: stderr, Env: func(string) string { return "" }}
}
