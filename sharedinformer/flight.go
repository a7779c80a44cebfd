package sharedinformer

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// Flight recorder entries.

// recordApplied records a batch's changes before they enter the log; recordList records an initial
// list as a single entry. The caller must hold join.
func (i *core) recordApplied(events []event, at time.Time) {
	position := i.log.total.Load()
	for n := range events {
		e := &events[n]
		if e.Initial {
			continue
		}
		f := flight.Event{
			At: at, Kind: flight.Applied, Key: object.KeyOf(e.Object), UID: string(e.Object.GetUID()),
			RV: e.Object.GetResourceVersion(), Change: e.Type.String(), Position: position + uint64(n) + 1,
		}
		if !e.Received.IsZero() {
			f.Received = e.AppliedAfter
			f.Decoded, f.Queued = e.AppliedAfter-e.DecodedAfter, e.AppliedAfter-e.QueuedAfter
		}
		i.track.Record(&f)
	}
}

// recordList records a list.
func (i *core) recordList(items int, rv string, first bool) {
	e := flight.Event{Kind: flight.Replaced, Count: items, RV: rv, Change: "update"}
	if first {
		e.Change = "add"
	}
	i.track.Record(&e)
}

func (i *core) recordBookmark(rv string) { i.track.Record(&flight.Event{Kind: flight.Marked, RV: rv}) }

// recordState records a reflector's state.
func (i *core) recordState(s reflector.Status) {
	e := flight.Event{At: s.Since, Kind: flight.Turned, Outcome: s.State.String(), RV: s.RV, Attempt: s.Attempts}
	if s.Attempts > 0 {
		e.Text = fmt.Sprint(s.Failure)
	} else if s.Resource != i.Name() {
		e.Text = s.Resource
	}
	i.track.Record(&e)
}

// recordFailure records a failure outside the reflector.
func (i *core) recordFailure(d *delivery, f *failure.Failure) {
	track := i.track
	if d != nil {
		track = d.track
	}
	// Formatting a user's error may panic; fmt recovers from that.
	track.Record(&flight.Event{At: f.Last, Kind: flight.Failed, Key: f.Key, Text: fmt.Sprint(f)})
}

// noteCall stores the event of the last call.
func (d *delivery) noteCall(e *event) {
	d.last.Key, d.last.RV, d.last.Change = object.KeyOf(e.Object), e.Object.GetResourceVersion(), e.Type.String()
	d.received = e.Received
}

// recordCalls records the calls made since it was last called.
func (d *delivery) recordCalls(calls lap) {
	if calls.calls == 0 {
		return
	}
	e := flight.Event{
		At: calls.ended, Kind: flight.Told, Count: calls.calls, Took: calls.took,
		After: d.last.After, Position: d.mailbox.position(),
	}
	if calls.calls == 1 {
		e.Key, e.RV, e.Change = d.last.Key, d.last.RV, d.last.Change
	}
	if !d.received.IsZero() {
		e.Received = calls.ended.Sub(d.received)
	}
	d.last = flight.Event{After: e.Position}
	d.track.Record(&e)
}
