package controller

import (
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// recording is a Recorder of the user's. A panic or a runtime.Goexit of it must not end a
// worker or keep Run from its end: it is logged, and nothing comes of the call.
type recording struct {
	recorder  Recorder
	log       *slog.Logger
	complaint complaint
}

func (r *recording) started(c View)      { r.call(func() { r.recorder.Started(c) }) }
func (r *recording) stopped(last Status) { r.call(func() { r.recorder.Stopped(last) }) }
func (r *recording) reconcileTime(d time.Duration) {
	r.call(func() { r.recorder.ReconcileTime(d) })
}

// call does nothing without a recorder.
func (r *recording) call(tell func()) {
	if r == nil {
		return
	}
	err := failure.Apart("the recorder", func() error { tell(); return nil })
	if err != nil {
		r.complaint.say(func(more int) { report(r.log.With("more", more), "the metrics failed", err) })
	}
}
