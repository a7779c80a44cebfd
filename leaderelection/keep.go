package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/internal/redial"
)

// keeper keeps a term's lease. One goroutine renews it and another watches the deadline, so that a
// transport or logger that blocks cannot delay the deadline.
type keeper struct {
	*Elector
	lose  context.CancelCauseFunc // cancels the work
	stop  context.CancelFunc      // stops the keeper
	loops sync.WaitGroup          // the two goroutines and one per request
	slots chan struct{}           // contains a token per request in progress

	mu   sync.Mutex // guards the fields below; no other code is called while it is held
	held term
	last error // the error from the last attempt
	lost error // why the lease was lost; nil if it was not
}

// keep renews the lease until the keeper is stopped. At the deadline it cancels the work by calling lose
// but keeps trying, because the lease should outlive the work if possible. It stops if another candidate
// takes the lease or another client deletes it.
func (e *Elector) keep(ctx context.Context, held term, lose context.CancelCauseFunc) *keeper {
	ctx, stop := context.WithCancel(ctx)
	k := &keeper{Elector: e, lose: lose, stop: stop, held: held, slots: make(chan struct{}, lease.MaxRequests), last: errors.New("no renewal got a response")}
	k.loops.Go(func() { k.watch(ctx) })
	k.loops.Go(func() { k.renewals(ctx) })
	return k
}

// end stops the keeper and waits for its goroutines. After that, its state may be read without locking.
func (k *keeper) end() {
	k.stop()
	k.loops.Wait()
}

// left returns the time until the deadline.
func (k *keeper) left() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Until(k.held.sent.Add(k.opts.RenewDeadline))
}

// watch cancels the work at the deadline; each renewal postpones it.
func (k *keeper) watch(ctx context.Context) {
	for left := k.left(); left > 0; left = k.left() {
		if !lease.Sleep(ctx, left, nil) {
			return
		}
	}
	k.mu.Lock()
	last := k.last
	k.mu.Unlock()
	k.report(fmt.Errorf("not renewed for %s: %w", k.opts.RenewDeadline, last))
}

// report cancels the work because the lease was lost. Only the first reason is kept.
func (k *keeper) report(err error) {
	k.mu.Lock()
	first := k.lost == nil
	if first {
		k.lost = fmt.Errorf("leader election: %s: %w: %w", k.status.Lease, ErrLost, err)
	}
	lost := k.lost
	k.mu.Unlock()
	if !first {
		return
	}
	k.update(func(s *Status) { s.Lost = &Failure{Err: err, When: time.Now()} })
	k.lose(lost) // before logging, which may block
	k.opts.Logger.Error("the lease was lost; the work has to stop", "err", err)
}

// renewals keeps renewing the lease until ctx is done or the lease is no longer ours.
func (k *keeper) renewals(ctx context.Context) {
	wait := max(k.opts.RetryPeriod-time.Since(k.held.sent), 0) // the response to the first write may have taken long
	for lease.Sleep(ctx, wait, nil) {
		patience := k.opts.RenewDeadline
		if left := k.left(); left > 0 {
			patience = left - left/100 // leave time to report the reason before the deadline
		}
		limited, cancel := context.WithTimeout(ctx, patience)
		r := k.attempts(limited, k.held)
		cancel()
		switch {
		case final(r.err):
			k.report(r.err)
			// Do this even after the deadline, because another candidate may now be the leader.
			k.update(func(s *Status) { s.Lost = &Failure{Err: r.err, When: time.Now()} })
			if r.lease != nil {
				k.saw(r.lease, time.Now())
			}
			k.trouble.Answered()
			return
		case ctx.Err() != nil:
			return
		case r.err != nil:
			k.mu.Lock()
			k.last = r.err
			k.mu.Unlock()
			wait = k.opts.RetryPeriod / 4 // the deadline is near
			k.trouble.Failed("the lease could not be renewed", r.err)
		default:
			k.mu.Lock()
			k.held = r.term
			k.mu.Unlock()
			wait = max(k.opts.RetryPeriod-time.Since(r.sent), 0)
			k.saw(r.lease, r.sent)
			k.trouble.Answered()
		}
	}
}

// renewal is the result of a renewal attempt.
type renewal struct {
	term
	err error
}

// attempts tries to renew until ctx is done. If an attempt gets no response within a third of
// RenewDeadline, its connection may be dead, so another attempt is started on a new one. The first attempt
// continues, since it may just be slow, for example because it is waiting for credentials. The first success
// wins.
func (k *keeper) attempts(ctx context.Context, held term) renewal {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, pending := make(chan renewal, lease.MaxRequests), 0
	try := func(ctx context.Context) {
		select {
		case k.slots <- struct{}{}:
		default:
			return
		}
		pending++
		k.loops.Go(func() {
			defer func() { <-k.slots }()
			sent := time.Now()
			now, err := lease.Guard(func() (*coordinationv1.Lease, error) { return k.renew(ctx, held) })
			answers <- renewal{term{now, sent}, err}
		})
	}
	again := time.NewTicker(k.opts.RenewDeadline / 3)
	defer again.Stop()
	var came renewal // the first failure
	try(ctx)
	for given := ctx.Done(); ; {
		select {
		case r := <-answers:
			pending--
			if r.err == nil || final(r.err) {
				return r
			}
			if came.err == nil {
				came = r
			}
			if pending == 0 || given == nil {
				return came
			}
		case <-again.C:
			if given == nil {
				// The attempts were canceled without a response.
				return renewal{err: lease.ErrDeaf}
			}
			try(redial.Mark(ctx))
		case <-given:
			if came.err != nil {
				return came
			}
			given = nil // canceled attempts return immediately
			again.Reset(k.opts.RenewDeadline / 200)
		}
	}
}

var (
	// errTaken means that the lease belongs to another term.
	errTaken = errors.New("taken over")
	// errDeleted means that the Lease was deleted. Another candidate may have taken it before the deletion, or
	// may take it now, so creating it again could make two leaders.
	errDeleted = errors.New("deleted by another client")
)

// final reports whether an error means that the lease is no longer ours.
func final(err error) bool { return errors.Is(err, errTaken) || errors.Is(err, errDeleted) }

// ours returns a function that fails if the lease does not belong to our term. The error includes the
// holder.
func (e *Elector) ours(last *coordinationv1.Lease) func(now *coordinationv1.Lease) error {
	return func(now *coordinationv1.Lease) error {
		holder := lease.Holder(now)
		by := strconv.Quote(holder)
		switch {
		case lease.Token(now) == lease.Token(last) && lease.SameTerm(now, last):
			return nil
		case holder == "":
			by = "an unknown process (its holder was erased)"
		case holder == e.opts.Identity:
			by = fmt.Sprintf("another process with our identity, %s, or edited by hand,", by)
		}
		return fmt.Errorf("%w by %s with token %d", errTaken, by, lease.Token(now))
	}
}

// renew writes the current time to our lease.
func (e *Elector) renew(ctx context.Context, held term) (*coordinationv1.Lease, error) {
	now, err := e.leases.Change(ctx, held.lease, e.ours(held.lease), e.renewed)
	if failure.Missing(err) {
		return nil, errDeleted
	}
	return now, err
}
