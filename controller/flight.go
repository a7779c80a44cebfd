package controller

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
)

// What is written to the flight recorder.

func (s *session) record(req Request, e *flight.Event) {
	e.Key, e.Cluster = req.Key, req.Cluster
	s.controller.track.Record(e)
}

// asked records why a request is queued, and in how long it may be taken.
func (s *session) asked(req Request, typ CauseType, source *subscription, about object.Key, in time.Duration) {
	e := flight.Event{Kind: flight.Asked, Change: typ.String(), Took: in}
	if about != req.Key {
		e.About = about
	}
	if source != nil {
		e.Text = source.source.String()
	}
	s.record(req, &e)
}

func (s *session) parked(req Request) { s.record(req, &flight.Event{Kind: flight.Parked}) }

func (s *session) taken(a *attempt, now time.Time) {
	s.record(a.request, &flight.Event{At: now, Kind: flight.Taken, Attempt: a.number, Took: s.queue.Waited(a.request)})
}

// done records how a reconcile ended.
func (s *session) done(a *attempt, result Result, err error, took time.Duration) {
	e := flight.Event{Kind: flight.Done, Attempt: a.number, Took: took, Outcome: "success"}
	switch {
	case err != nil && (s.ended(err) || sharding.Over(a.Context)):
		e.Outcome = "cancelled"
	case IsTerminal(err):
		e.Outcome, e.Text = "terminal error", fmt.Sprint(err)
	case err != nil:
		e.Outcome, e.Text = "error", fmt.Sprint(err)
	case result.RequeueAfter > 0:
		e.Outcome = "again later"
	case result.Requeue, result.RequeueAfter < 0:
		e.Outcome = "again"
	}
	s.record(a.request, &e)
}
