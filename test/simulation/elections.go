package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
)

var leaseKey = object.Key{Namespace: "default", Name: "leader"}

// elections holds the candidates for one Lease.
type elections struct {
	play       *play
	candidates []*candidate

	mu      sync.Mutex
	leading map[string]int64 // leaders with their tokens, kept until their work must have stopped
	holder  string           // the leader, until its context is canceled
	last    int64            // the greatest token issued under the existing Lease
	since   time.Time        // when the holder started leading
	deleted time.Time        // when the Lease was deleted
}

// candidate is a candidate for the Lease, in a process of its own.
type candidate struct {
	*elections
	called  string
	process *process
	end     time.Duration // how long its work takes to stop
	own     int64         // the greatest token it has led with
	opts    leaderelection.Options
	elector *leaderelection.Elector
	cancel  context.CancelFunc // nil if not running
	ended   chan struct{}
}

func newElections(p *play, n int) *elections {
	e := &elections{play: p, leading: map[string]int64{}}
	for i := range n {
		c := &candidate{elections: e, called: name("candidate", i), process: p.process(false)}
		c.process.manners.hasty = true // the candidate sends another request while one is pending
		opts := leaderelection.Options{Namespace: leaseKey.Namespace, Name: leaseKey.Name, Identity: c.called}
		patience := 10 * time.Second
		if p.World.Drift { // on a slower clock everything takes longer
			patience = time.Duration(8+2*i) * time.Second
			opts.RenewDeadline, opts.RetryPeriod = patience, patience/5
		}
		c.end = (15*time.Second - patience) * 3 / 5
		c.opts = opts
		if !c.make() {
			continue
		}
		e.candidates = append(e.candidates, c)
		time.Sleep(time.Duration(i+1) * 7919 * time.Nanosecond)
		c.start()
	}
	return e
}

// make creates an elector that has not seen the Lease.
func (c *candidate) make() bool {
	elector, err := leaderelection.New(c.process.client, c.opts)
	if err != nil {
		c.play.breaks("leaderelection.New: %v", err)
		return false
	}
	c.elector = elector
	return true
}

func (c *candidate) start() {
	if c.cancel != nil {
		return
	}
	c.play.say(c.called, "starts")
	ctx, cancel := context.WithCancel(c.play.ctx)
	c.cancel, c.ended = cancel, make(chan struct{})
	c.play.runs.Go(func() {
		defer close(c.ended)
		for ctx.Err() == nil {
			if err := c.elector.Run(ctx, c.lead); err != nil && !errors.Is(err, leaderelection.ErrLost) {
				c.play.breaks("%s: Run failed: %v", c.called, err)
			}
		}
	})
}

func (c *candidate) stop() {
	if c.cancel == nil {
		return
	}
	c.play.say(c.called, "stops")
	c.cancel()
	<-c.ended
	c.cancel = nil
}

func (c *candidate) toggle() {
	if c.cancel == nil {
		c.start()
	} else {
		c.stop()
	}
}

// lead works until ctx is canceled, then takes a while to stop.
func (c *candidate) lead(ctx context.Context) error {
	token, _ := leaderelection.Token(ctx)
	c.mu.Lock()
	for other := range c.leading {
		if c.play.restored.Load() == 0 && time.Since(c.deleted) > lookout { // a restored Lease may belong to any candidate
			c.play.breaks("%s leads while %s does", c.called, other)
		}
	}
	if token <= c.own { // an elector remembers its tokens, whatever happens to the Lease
		c.play.breaks("%s leads with token %d after %d of its own", c.called, token, c.own)
	}
	c.own = token
	switch {
	case time.Since(c.deleted) < lookout && !c.shows(c.called, token):
		// The candidate acquired the old Lease, which was deleted while the response was in flight.
	case token <= c.last && c.play.restored.Load() == 0:
		c.play.breaks("%s leads with token %d after %d", c.called, token, c.last)
	default:
		c.last = token
	}
	c.leading[c.called] = token
	c.holder, c.since = c.called, time.Now()
	c.mu.Unlock()
	c.play.say(c.called, "leads with token %d", token)
	<-ctx.Done()
	c.mu.Lock()
	if c.holder == c.called {
		c.holder = ""
	}
	c.mu.Unlock()
	time.Sleep(c.end)
	c.play.say(c.called, "leads no more: %v", context.Cause(ctx))
	c.mu.Lock()
	delete(c.leading, c.called)
	c.mu.Unlock()
	if token%3 == 0 { // the work ignores its context, so another candidate may be leading
		time.Sleep(20 * time.Second)
	}
	return nil
}

// lookout is how long a leader may take to notice that another candidate holds a recreated Lease and to stop
// its work.
const lookout = 20 * time.Second

// unmake deletes the Lease and restarts a candidate, which has then never seen it. That candidate acquires
// the lease immediately, while another one may be leading.
func (e *elections) unmake(c *candidate) {
	c.stop()
	c.make()
	e.mu.Lock()
	e.deleted, e.last, c.own = time.Now(), 0, 0
	e.mu.Unlock()
	_ = e.play.srv.Delete(leaseGVR, leaseKey) // it may not exist
	c.start()
}

// check reports a violation if there are two leaders, or a leader that does not hold the Lease.
func (e *elections) check() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder == "" || time.Since(e.deleted) < lookout || e.play.restored.Load() > 0 {
		return
	}
	if len(e.leading) > 1 {
		e.play.breaks("two lead: %v", e.leading)
	}
	o, err := e.play.srv.Get(leaseGVR, leaseKey)
	if err != nil || time.Since(e.since) == 0 {
		return
	}
	if holder := o.(*coordinationv1.Lease).Spec.HolderIdentity; holder == nil || *holder != e.holder {
		e.play.breaks("%s leads, and the Lease is that of %s", e.holder, nameOf(holder))
	}
}

// shows reports whether the existing Lease names this candidate and token.
func (e *elections) shows(holder string, token int64) bool {
	o, err := e.play.srv.Get(leaseGVR, leaseKey)
	if err != nil {
		return false
	}
	spec := o.(*coordinationv1.Lease).Spec
	return nameOf(spec.HolderIdentity) == holder && spec.LeaseTransitions != nil && int64(*spec.LeaseTransitions) == token
}

func nameOf(holder *string) string {
	if holder == nil {
		return "nobody"
	}
	return *holder
}

// leader returns the leading candidate, or nil.
func (e *elections) leader() *candidate {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.candidates {
		if _, leads := e.leading[c.called]; leads {
			return c
		}
	}
	return nil
}

func (e *elections) heal() {
	for _, c := range e.candidates {
		c.start()
	}
}

func (e *elections) stop() {
	for _, c := range e.candidates {
		c.stop()
	}
}

// settled returns a violation unless exactly one candidate leads.
func (e *elections) settled() (wrong []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.candidates) > 0 && len(e.leading) != 1 {
		wrong = append(wrong, fmt.Sprintf("%d of %d candidates lead: %v", len(e.leading), len(e.candidates), e.leading))
	}
	return wrong
}
