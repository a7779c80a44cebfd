package controller

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/internal/throttle"
)

// A controller that is waiting for its sources logs a warning after firstTold, and then at doubling
// intervals up to lastTold.
const (
	firstTold = 10 * time.Second
	lastTold  = 5 * time.Minute
)

// session is a single run of a controller: its queue and everything it started.
type session struct {
	*core
	*requests
	sources    *sourceList
	ctx        context.Context
	barrier    *ownwrites.Barrier
	namespaces namespaces
	slow       throttle.Log // logs reconciles that have not returned
	waits      sharding.Waits
	tasks      sync.WaitGroup // every goroutine of this run
}

func newSession(ctx context.Context, c *core, all *sourceList, earlier ownwrites.Notes) *session {
	s := &session{core: c, requests: newRequests(c), sources: all, ctx: ctx}
	s.namespaces = namespaces{core: c, requests: s.requests, sources: all, spawn: func(run func(context.Context)) { s.tasks.Go(func() { run(ctx) }) }}
	s.barrier = ownwrites.New(ctx, ownwrites.Options{
		Controller: c.name, Patience: c.opts.Patience, Counts: &c.count.ownWrites, Logger: c.opts.Logger,
		Again: func(req ownwrites.Request) { s.requeue(Request(req)) }, Earlier: earlier,
	})
	return s
}

// begin runs a source in its own goroutine. The caller holds Controller.mu.
func (s *session) begin(sub *subscription) {
	if s.ctx.Err() != nil {
		return // the session is ending and only waits for sources already started
	}
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	sub.cancel, sub.ended, sub.misuse = cancel, ended, s.sources.misuse(sub)
	sub.synced.Store(false)
	sub.finished.Store(false)
	in := &Inbox{core: s.core, requests: s.requests, subscription: sub, ctx: ctx}
	s.tasks.Go(func() {
		defer close(ended)
		defer cancel()
		sub.serve(ctx, in)
	})
}

// awaitSources waits until every source has synced, and returns false if the session ends first. If it has
// to wait too long, it logs the reasons and stops waiting for namespaces whose lists fail.
func (s *session) awaitSources() bool {
	patience := firstTold
	timer := time.NewTimer(patience)
	defer timer.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	began := time.Now()
	for s.sources.unsynced() {
		select {
		case <-s.sources.changed:
		case <-look.C:
			if time.Since(began) >= firstTold && s.namespaces.mayBegin() {
				s.namespaces.logMissing()
				return true
			}
		case <-timer.C:
			s.opts.Logger.Warn("the controller is not reconciling yet", "controller", s.name, "err", s.notReady(Waiting, s.sources.waiting()))
			patience = min(2*patience, lastTold)
			timer.Reset(patience)
		case <-s.ctx.Done():
			return false
		}
	}
	s.namespaces.awaited = s.sources.all()
	return s.ctx.Err() == nil
}
