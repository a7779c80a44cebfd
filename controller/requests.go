package controller

import (
	"fmt"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/workqueue"
)

// requests are those of one run: the queue, why each request is in it, and how often each has
// failed in a row. The flight recorder gets all of that.
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

// enqueue queues a request and notes why, where it belongs, and whether it is urgent.
func (r *requests) enqueue(req Request, typ CauseType, source fmt.Stringer, about object.Key, at placement, urgent bool, opts workqueue.AddOptions) {
	r.causes.add(req, typ, source, about, at, urgent)
	r.recordEnqueued(req, typ, source, about, opts.After)
	opts.Priority = reasons{urgent: urgent}.priority()
	r.queue.AddWith(opts, req)
}

// requeue adds a request that was put aside, with the priority that it had.
func (r *requests) requeue(req Request) {
	r.queue.AddWith(workqueue.AddOptions{Priority: r.causes.priority(req)}, req)
}

// forget ends the back-off and the count of failures of a request.
func (r *requests) forget(req Request) {
	r.queue.Forget(req)
	r.failures.end(req)
}

func (r *requests) record(req Request, e *flight.Event) {
	e.Key, e.Cluster = req.Key, req.Cluster
	r.track.Record(e)
}

// recordEnqueued records why a request is queued, and in how long it may be taken.
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

// failures counts how often a request has failed in a row. The back-off does not
// tell: a reconcile that asks for another one without an error lengthens it too.
type failures struct {
	mu   sync.Mutex // guards all below; nothing is called while it is held
	of   map[Request]int
	most int // the largest len(of) since of was made
}

// next is the number of the attempt that begins.
func (f *failures) next(req Request) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[req] + 1
}

// add says that an attempt of this number has failed and is followed by another.
func (f *failures) add(req Request, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = make(map[Request]int)
	}
	f.of[req] = number
	f.most = max(f.most, len(f.of))
}

// end says that the next attempt is a first one.
func (f *failures) end(req Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, req)
	if len(f.of) == 0 && f.most > 1000 { // a map does not shrink
		f.of, f.most = nil, 0
	}
}
