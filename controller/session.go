package controller

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/internal/throttle"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/workqueue"
)

// How long a controller waits for its sources before it says so, and between two
// times at most.
const (
	firstTold = 10 * time.Second
	lastTold  = 5 * time.Minute
)

// session is one run of a controller: its queue and everything that it started.
type session struct {
	controller *Controller
	ctx        context.Context
	queue      *workqueue.Queue[Request]
	causes     causes
	barrier    *ownwrites.Barrier
	early      early
	streaks    streaks
	slow       throttle.Log //  reconciles that have not returned
	waits      sharding.Waits
	tasks      sync.WaitGroup // every goroutine of this run
	changed    chan struct{}  // a token: look again whether all sources are synced
}

func newSession(ctx context.Context, c *Controller) *session {
	s := &session{
		controller: c,
		ctx:        ctx,
		queue: workqueue.New(workqueue.Options[Request]{
			Name: c.name, RateLimiter: c.opts.RateLimiter, FairEvery: c.opts.FairEvery, Metrics: c.opts.QueueMetrics, Timestamps: true,
		}),
		changed: make(chan struct{}, 1),
	}
	s.barrier = ownwrites.New(ctx, ownwrites.Options{
		Controller: c.name, Patience: c.opts.Patience, Counts: &c.count.ownWrites, Logger: c.opts.Logger,
		Again: func(req ownwrites.Request) { s.again(Request(req)) },
	})
	return s
}

// begin runs a source in a goroutine of its own. It is called under
// Controller.mu.
func (s *session) begin(sub *subscription) {
	if s.ctx.Err() != nil {
		return // it is about to end, and waits for what was begun
	}
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	sub.cancel, sub.ended, sub.misuse = cancel, ended, s.controller.misuse(sub)
	sub.synced.Store(false)
	sub.finished.Store(false)
	in := &Inbox{subscription: sub, session: s, ctx: ctx}
	s.tasks.Go(func() {
		defer close(ended)
		defer cancel()
		sub.serve(ctx, in)
	})
}

// poke lets awaitSources look again.
func (s *session) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// awaitSources waits until every source is synced, and returns false if the
// session ends before. If that takes long it says what it waits for, and begins without the
// namespaces whose lists fail.
func (s *session) awaitSources() bool {
	patience := firstTold
	timer := time.NewTimer(patience)
	defer timer.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	began := time.Now()
	for s.controller.unsynced() {
		select {
		case <-s.changed:
		case <-look.C:
			if time.Since(began) >= firstTold && s.mayBegin() {
				s.beginEarly()
				return true
			}
		case <-timer.C:
			s.controller.opts.Logger.Warn("the controller reconciles nothing yet", "controller", s.controller.name, "err", s.controller.Ready())
			patience = min(2*patience, lastTold)
			timer.Reset(patience)
		case <-s.ctx.Done():
			return false
		}
	}
	return s.ctx.Err() == nil
}

// ask queues a request and notes why, where it belongs, and whether it is urgent.
func (s *session) ask(req Request, typ CauseType, source *subscription, about object.Key, at placement, urgent bool, opts workqueue.AddOptions) {
	s.causes.add(req, typ, source, about, at, urgent)
	s.asked(req, typ, source, about, opts.After)
	opts.Priority = reasons{urgent: urgent}.priority()
	s.queue.AddWith(opts, req)
}

// again adds a request that was put aside, with the priority that it had.
func (s *session) again(req Request) {
	s.queue.AddWith(workqueue.AddOptions{Priority: s.causes.priority(req)}, req)
}
