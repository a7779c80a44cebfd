package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// Errors of Run.
var (
	// ErrLost: the lease could not be renewed in time, or another candidate has it.
	ErrLost = errors.New("the lease was lost")
	// ErrRunning: Run was called while it runs.
	ErrRunning = errors.New("the election runs already")
)

// Elector takes part in one election. Make it with New.
//
// To lead:
//
//  1. Read the lease every RetryPeriod, until it is free: held by nobody, or not
//     seen to change for as long as its holder said.
//  2. Write our name into it, and a token greater by one, on the condition that
//     it is still as we read it. The losers of this race go on with 1.
//  3. Call the work. Meanwhile renew every RetryPeriod, sooner after a failure. End
//     the work's context RenewDeadline after the last renewal was sent, or when the
//     lease turns out to be another term's.
//  4. When the work has returned, stop renewing and release the lease.
type Elector struct {
	opts    Options
	leases  *lease.Client
	trouble lease.Trouble
	turn    chan struct{} // a token while Run runs

	mu       sync.Mutex // guards all below; nothing is called while it is held
	status   Status
	greatest int64 // token that was seen
}

// New checks the options and sends nothing. The client's scheme must know Lease.
func New(client *rest.Client, opts Options) (*Elector, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	leases, err := lease.NewClient(client, opts.Namespace)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	key := object.Key{Namespace: opts.Namespace, Name: opts.Name}
	opts.Logger = opts.Logger.With("lease", key.String())
	return &Elector{
		opts:    opts,
		leases:  leases,
		trouble: lease.Trouble{Logger: opts.Logger},
		turn:    make(chan struct{}, 1),
		status:  Status{Lease: key, Identity: opts.Identity},
	}, nil
}

// Run waits until we lead and calls lead, once, in this goroutine. The context
// that lead gets carries the Token; it ends with ctx, or when the lease is lost,
// then with a cause that wraps ErrLost. The lease is kept until lead returns,
// and then released.
//
// Run returns nil when ctx was done before we led, and else what lead returned,
// joined with ErrLost if the lease was lost. It panics if lead is nil. A panic of
// lead goes on to the caller; the lease is then renewed no more, and not released.
func (e *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	if lead == nil {
		panic(fmt.Sprintf("leader election: %s: Run was called without a function", failure.Place(1)))
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	default:
		return fmt.Errorf("leader election: %s: %w", e.status.Lease, ErrRunning)
	}
	held, ok := e.acquire(ctx)
	if !ok {
		return nil
	}
	return e.serve(ctx, held, lead)
}

// acquire campaigns until we hold the lease. It reports false when ctx is done.
func (e *Elector) acquire(ctx context.Context) (held term, ok bool) {
	e.opts.Logger.Debug("waiting for the lease", "identity", e.opts.Identity)
	var seen candidacy
	for {
		if ctx.Err() == nil {
			held, ok = e.campaign(ctx, &seen)
		}
		if ok {
			return held, true
		}
		pause := e.opts.RetryPeriod + jitter.Below(time.Duration(float64(e.opts.RetryPeriod)*spread)+1)
		if !lease.Sleep(ctx, pause, nil) {
			return term{}, false
		}
	}
}

// campaign is one attempt to become leader.
func (e *Elector) campaign(ctx context.Context, seen *candidacy) (term, bool) {
	limited, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline)
	defer cancel()
	failed := func(what string, err error) (term, bool) {
		if ctx.Err() == nil { // or else it was we who gave up
			e.trouble.Failed(what, err)
		}
		return term{}, false
	}
	const notTaken = "the lease is free but could not be taken"
	now, err := e.leases.Get(limited, e.opts.Name)
	write, there := e.leases.Update, int64(0)
	switch {
	case lease.Missing(err):
		write = e.create
		switch {
		case seen.Lease == nil:
			seen.Lease = &coordinationv1.Lease{}
		case !seen.free(e.opts.LeaseDuration):
			// It was deleted, and its holder works on.
			e.trouble.Answered()
			return term{}, false
		}
	case err != nil:
		return failed("the lease could not be read", err)
	default:
		seen.See(now, time.Now())
		e.saw(now, seen.Since)
		if !seen.free(e.opts.LeaseDuration) {
			e.trouble.Answered()
			return term{}, false
		}
		there = lease.Token(now)
	}
	next, err := e.nextToken(there)
	if err != nil {
		return failed(notTaken, err)
	}
	sent := time.Now()
	taken, err := write(limited, e.taken(seen.Lease, next))
	switch {
	case (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) && seen.raced():
		e.trouble.Answered()
		return term{}, false // another candidate was faster, which the next look will show
	case err != nil:
		return failed(notTaken, err)
	}
	e.saw(taken, sent)
	if took := time.Since(sent); took >= e.opts.RenewDeadline {
		// The process was suspended, or a transport does not heed its context.
		return failed("the lease was taken, and will run out unused", fmt.Errorf("the answer came after %s", took))
	}
	e.trouble.Answered()
	return term{lease: taken, sent: sent}, true
}

// serve calls the work and keeps the lease meanwhile.
func (e *Elector) serve(ctx context.Context, held term, lead func(context.Context) error) error {
	e.update(func(s *Status) { s.Leading = true })
	e.opts.Logger.Info("leading", "identity", e.opts.Identity, "token", lease.Token(held.lease))
	working, lose := context.WithCancelCause(withToken(ctx, lease.Token(held.lease)))
	defer lose(nil)
	// The lease outlives the work, and therefore ctx.
	k := e.keep(context.WithoutCancel(ctx), held, lose)
	end := func() {
		k.end()
		e.update(func(s *Status) { s.Leading, s.Lost = false, nil })
	}
	defer end() // also when lead panics or ends its goroutine
	err := lead(working)
	end()
	if *e.opts.ReleaseOnCancel {
		e.release(context.WithoutCancel(ctx), k.held.lease)
	}
	if errors.Is(err, ErrLost) {
		return err // the work has said it
	}
	return errors.Join(k.lost, err)
}

// release gives the lease back if it is still of our term, so others need not wait. If
// that fails, they wait.
func (e *Elector) release(ctx context.Context, last *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline/3)
	defer cancel()
	now, err := e.leases.Change(ctx, last, e.ours(last), released)
	switch {
	case errors.Is(err, errTaken):
	case err != nil:
		e.opts.Logger.Warn("the lease could not be released; others have to wait until it has run out", "err", err)
	default:
		e.saw(now, time.Now())
		e.trouble.Answered()
	}
}

// saw notes what the lease is like.
func (e *Elector) saw(l *coordinationv1.Lease, when time.Time) {
	changed := e.update(func(s *Status) {
		s.Holder, s.Token, s.Renewed = lease.Holder(l), lease.Token(l), when
		e.greatest = max(e.greatest, lease.Token(l))
	})
	switch {
	case changed && lease.Holder(l) == "":
		e.opts.Logger.Info("the lease is free", "token", lease.Token(l))
	case changed:
		e.opts.Logger.Info("the lease is held", "holder", lease.Holder(l), "token", lease.Token(l))
	}
}
