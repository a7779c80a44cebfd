package flight

import (
	"fmt"
	"io"
	"os"
	"time"
)

// lastWords is how many events a crash writes to standard error.
const lastWords = 200

// patience is how long the end of a process waits until its last events are written.
const patience = 5 * time.Second

// CrashTo says where the events are written if the process is about to end by a panic: all
// of them to w. By default, and with nil, the last 200 go to standard error. With
// io.Discard, none do. What w writes to must not need the goroutines that caused the crash.
// After five seconds the process ends, whether w is through or not.
func (r *Recorder) CrashTo(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crash = w
}

// Crashing writes the events because the process is about to end by a panic. Handlers and
// controllers with CrashOnPanic call it. Where several do at a time, one writes after the
// other.
func (r *Recorder) Crashing() {
	r.mu.Lock()
	w, n := r.crash, -1
	r.mu.Unlock()
	if w == nil {
		w, n = os.Stderr, lastWords
	}
	r.finally(w, n)
}

// finally writes the last n events, all for a negative n, before the process ends. Whatever
// w does, it ends: a writer may block, panic or fail, and nothing can be done about it.
func (r *Recorder) finally(w io.Writer, n int) {
	written := make(chan struct{})
	go func() { // ends with w, or with the process
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
