package flight

import (
	"fmt"
	"io"
	"os"
	"time"
)

// lastWords is the number of events written to standard error when the process crashes.
const lastWords = 200

// patience is how long the process waits for the last events to be written.
const patience = 5 * time.Second

// CrashTo makes the recorder write all events to w when a panic is about to crash the process. By default,
// and if w is nil, it writes the last 200 events to standard error; pass io.Discard to suppress them. w must
// not depend on the goroutines that caused the crash. The process exits after five seconds, even if the write
// has not finished.
func (r *Recorder) CrashTo(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crash = w
}

// Crashing writes the events when a panic is about to crash the process. Handlers and controllers with
// CrashOnPanic call it. Concurrent calls write one after another.
func (r *Recorder) Crashing() {
	r.mu.Lock()
	w, n := r.crash, -1
	r.mu.Unlock()
	if w == nil {
		w, n = os.Stderr, lastWords
	}
	r.finally(w, n)
}

// finally writes the last n events, or all events if n is negative, before the process exits. It returns even
// if w blocks, panics or fails.
func (r *Recorder) finally(w io.Writer, n int) {
	written := make(chan struct{})
	go func() { // exits when w returns, or with the process
		defer close(written)
		defer func() { _ = recover() }()
		r.ending.Lock()
		defer r.ending.Unlock()
		_ = r.dump(w, n)
	}()
	impatient := time.NewTimer(patience)
	defer impatient.Stop()
	select {
	case <-written:
	case <-impatient.C:
	}
}

// DumpOnPanic calls Crashing if the goroutine panics, and then resumes the panic. It must be deferred:
//
//	defer flight.Process().DumpOnPanic()
func (r *Recorder) DumpOnPanic() {
	if v := recover(); v != nil {
		r.Crashing()
		panic(v)
	}
}

// dump writes the last n events, or all events if n is negative.
func (r *Recorder) dump(w io.Writer, n int) error {
	entries, lost := r.Entries(nil), r.Status().Lost
	if older := len(entries) - n; n >= 0 && older > 0 {
		entries, lost = entries[older:], lost+uint64(older)
	}
	if _, err := fmt.Fprintf(w, "flight recorder: the last %d events; %d older ones omitted\n", len(entries), lost); err != nil {
		return err
	}
	return writeLines(w, entries)
}
