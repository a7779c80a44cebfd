package controllermanager

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/rest"
)

// round is a single Run of a Manager. Its methods are called from Run's goroutine.
type round struct {
	m       *Manager
	ctx     context.Context // done when Run's context is done or a controller has failed
	cancel  context.CancelCauseFunc
	started chan struct{} // closed once all controllers that can run at startup have been created
	clients []*rest.Client
	runs    sync.WaitGroup // one goroutine per controller
	any     bool           // at least one controller has been started

	mu   sync.Mutex // guards errs
	errs []error
}

func newRound(ctx context.Context, m *Manager) *round {
	r := &round{m: m, started: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// run performs the steps listed in the package documentation, and returns once everything has finished.
func (r *round) run() error {
	defer r.cancel(nil)
	defer func() {
		for _, c := range r.clients {
			c.CloseIdleConnections()
		}
	}()
	served, err := r.m.discover(r.ctx)
	if err != nil {
		return nil // ctx is done
	}
	for _, s := range r.m.Status() {
		if s.State == Disabled {
			r.m.set(s.Name, s.State, s.Reason) // logs the state
		}
	}
	made, err := r.make(served)
	close(r.started)
	if err != nil {
		return err
	}
	if r.start(made) {
		r.m.mu.Lock()
		r.m.waiting = nil
		r.m.mu.Unlock()
		r.lookAgain()
	}
	<-r.ctx.Done()
	r.runs.Wait()
	return errors.Join(r.errs...)
}

// lookAgain repeats discovery periodically as long as any controller is skipped, and starts controllers
// whose resources have appeared.
func (r *round) lookAgain() {
	interval := r.m.opts.DiscoveryInterval
	for interval > 0 && r.skipped() && sleep(r.ctx, interval) {
		served, err := discover(r.ctx, r.m.factory.Client().Mapper())
		if err != nil {
			r.m.opts.Logger.Debug("skipped controllers stay skipped", "err", err)
			continue
		}
		made, err := r.make(served)
		if err != nil {
			r.fail(err)
			return
		}
		r.start(made)
	}
}

func (r *round) skipped() bool {
	for _, s := range r.m.Status() {
		if s.State == Skipped {
			return true
		}
	}
	return false
}

// make creates the pending and skipped controllers whose resources are served, and returns them in
// registry order.
func (r *round) make(served Resources) (made []*member, err error) {
	for _, d := range r.m.registry.descriptors {
		r.m.mu.Lock()
		c := r.m.state[d.Name]
		status := c.Status
		r.m.mu.Unlock()
		if status.State != Pending && status.State != Skipped {
			continue
		}
		if missing := missing(d, served); missing != "" {
			r.m.set(d.Name, Skipped, "the server does not serve "+missing)
			continue
		}
		its, err := r.create(d, served)
		switch {
		case err != nil:
			return nil, r.m.failed(d.Name, err)
		case its.run == nil:
			r.m.set(d.Name, Declined, "it declined to run")
			continue
		}
		r.m.mu.Lock()
		c.State, c.Reason, c.run, c.events = Pending, "", its.run, its.events
		r.m.mu.Unlock()
		made = append(made, c)
	}
	return made, nil
}

// missing lists the required resources that the server does not serve.
func missing(d Descriptor, served Resources) string {
	var missing []string
	for _, gvr := range d.Requires {
		if !served.Has(gvr) {
			missing = append(missing, strings.Trim(gvr.GroupResource().String()+"/"+gvr.Version, "/"))
		}
	}
	return strings.Join(missing, ", ")
}

// start starts controllers one after another. It returns false if ctx is done.
func (r *round) start(made []*member) bool {
	for _, c := range made {
		if interval := r.m.opts.StartInterval; r.any && interval > 0 && !sleep(r.ctx, jitter.Longer(interval, interval)) {
			return false
		}
		r.any = true
		r.m.set(c.Name, Running, "")
		r.runs.Go(func() {
			err := c.call(r.ctx)
			if err == nil || failure.Stopped(r.ctx, err) {
				r.m.set(c.Name, Ended, "")
				return
			}
			r.fail(r.m.failed(c.Name, err))
		})
	}
	return r.ctx.Err() == nil
}

// fail records an error and stops the round.
func (r *round) fail(err error) {
	r.mu.Lock()
	r.errs = append(r.errs, err)
	r.mu.Unlock()
	r.cancel(err)
}
