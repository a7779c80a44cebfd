package controller

import (
	"fmt"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/workqueue"
)

// requests tracks the requests of one run: the queue, the causes and the consecutive failures. It
// records them in the flight recorder.
type requests struct {
	queue    *workqueue.Queue[Request]
	causes   causes
	failures failures
	track    *flight.Track
}

func newRequests(c *core) *requests {
	return &requests{track: c.track, queue: workqueue.New(workqueue.Options[Request]{
		Name: c.name, RateLimiter: c.opts.RateLimiter, FairEvery: c.opts.FairEvery, Metrics: c.opts.QueueMetrics, Timestamps: true,
	})}
}

// enqueue queues a request with a cause, a placement and an urgency.
func (r *requests) enqueue(req Request, typ CauseType, source fmt.Stringer, about object.Key, at placement, urgent bool, opts workqueue.AddOptions) {
	r.causes.add(req, typ, source, about, at, urgent)
	r.recordEnqueued(req, typ, source, about, opts.After)
	opts.Priority = reasons{urgent: urgent}.priority()
	r.queue.AddWith(opts, req)
}

// requeue requeues a request that was set aside, with its old priority.
func (r *requests) requeue(req Request) {
	r.queue.AddWith(workqueue.AddOptions{Priority: r.causes.priority(req)}, req)
}

// forget resets a request's back-off and failure count.
func (r *requests) forget(req Request) {
	r.queue.Forget(req)
	r.failures.end(req)
}

// forgetDropped resets the back-off of every request that the end of the run drops: a user's RateLimiter outlives the
// run, and in the next one, each of them starts from scratch.
func (r *requests) forgetDropped() {
	for _, req := range r.causes.requests() {
		r.queue.Forget(req)
	}
}

func (r *requests) record(req Request, e *flight.Event) {
	e.Key, e.Cluster = req.Key, req.Cluster
	r.track.Record(e)
}

// recordEnqueued records why a request was queued, and how long it is delayed.
func (r *requests) recordEnqueued(req Request, typ CauseType, source fmt.Stringer, about object.Key, in time.Duration) {
	e := flight.Event{Kind: flight.Asked, Change: typ.String(), Took: in}
	if about != req.Key {
		e.About = about
	}
	if source != nil {
		e.Text = source.String()
	}
	r.record(req, &e)
}

func (r *requests) recordParked(req Request) { r.record(req, &flight.Event{Kind: flight.Parked}) }

func (r *requests) recordTaken(req Request, number int, now time.Time) {
	r.record(req, &flight.Event{At: now, Kind: flight.Taken, Attempt: number, Took: r.queue.Waited(req)})
}

// failures counts each request's consecutive failures. The back-off counter cannot be used for this,
// because it also grows when a reconcile asks to be repeated without having failed.
type failures struct {
	mu   sync.Mutex // guards the fields below; no other code is called while it is held
	of   map[Request]int
	most int // the largest len(of) since of was allocated
}

// next returns the number of the next attempt.
func (f *failures) next(req Request) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[req] + 1
}

// add records that the attempt failed and will be retried.
func (f *failures) add(req Request, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = make(map[Request]int)
	}
	f.of[req] = number
	f.most = max(f.most, len(f.of))
}

// end resets the count, so that the next attempt is number 1.
func (f *failures) end(req Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, req)
	if len(f.of) == 0 && f.most > 1000 { // maps never shrink
		f.of, f.most = nil, 0
	}
}
