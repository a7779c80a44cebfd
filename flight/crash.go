package flight

import (
	"fmt"
	"io"
	"os"
)

// lastWords is how many events a crash writes to standard error.
const lastWords = 200

// CrashTo says where the events are written if the process is about to end by a panic: all
// of them to w. By default the last 200 go to standard error. With io.Discard, none do.
// What w writes to must not need the goroutines that caused the crash.
func (r *Recorder) CrashTo(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crash = w
}

// Crashing writes the events because the process is about to end by a panic. Handlers and
// controllers with CrashOnPanic call it.
func (r *Recorder) Crashing() {
	r.mu.Lock()
	w := r.crash
	r.mu.Unlock()
	// Nothing can be done about an error: the process ends.
	if w == nil {
		_ = r.dump(os.Stderr, lastWords)
	} else {
		_ = r.dump(w, -1)
	}
}

// DumpOnPanic is to be deferred. It calls Crashing where the goroutine panics, and lets the
// panic go on.
//
//	defer flight.Process().DumpOnPanic()
func (r *Recorder) DumpOnPanic() {
	if v := recover(); v != nil {
		r.Crashing()
		panic(v)
	}
}

// dump writes the last n events; all for a negative n.
func (r *Recorder) dump(w io.Writer, n int) error {
	entries, lost := r.Entries(nil), r.Status().Lost
	if older := len(entries) - n; n >= 0 && older > 0 {
		entries, lost = entries[older:], lost+uint64(older)
	}
	if _, err := fmt.Fprintf(w, "flight recorder: the last %d events; %d older ones are not here\n", len(entries), lost); err != nil {
		return err
	}
	return writeLines(w, entries)
}
