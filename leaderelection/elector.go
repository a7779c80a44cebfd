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

// Errors returned by [Elector.Run].
var (
	// ErrLost means that the lease was not renewed in time, was deleted, or is now held by another candidate.
	ErrLost = errors.New("the lease was lost")
	// ErrRunning means that Run was called while another call was running.
	ErrRunning = errors.New("the election is already running")
)

// Elector is a candidate in an election. Create it with [New]. Run works as follows:
//
//  1. Read the lease every RetryPeriod until it is free: either not held, or unchanged for the duration
//     that its holder set.
//  2. Write our identity and the next token, on condition that the lease has not changed since it was
//     read. Candidates that lose this race go back to step 1.
//  3. Call the work. While it is running, renew every RetryPeriod, or sooner after a failure. Cancel the
//     work's context RenewDeadline after the last renewal was sent, or when the lease turns out to belong
//     to another term or to be deleted.
//  4. Once the work has returned, stop renewing and release the lease.
type Elector struct {
	opts    Options
	leases  *lease.Client
	trouble lease.Trouble
	turn    chan struct{} // contains a token while Run is active
	seen    candidacy     // used only by Run

	mu       sync.Mutex // guards the fields below; no other code is called while it is held
	status   Status
	greatest int64 // greatest token seen
}

// New returns an Elector. It fails if the options are invalid; it makes no requests. The client's scheme
// must include Lease.
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

// Run waits until this process is the leader and then calls lead once, in the caller's goroutine. The
// context passed to lead carries the [Token]. It is canceled when ctx is done or the lease is lost; in the
// latter case, its cause wraps ErrLost. The lease is held until lead returns, and then released.
//
// Run returns nil if ctx is done before this process becomes the leader. Otherwise it returns lead's
// error, joined with ErrLost if the lease was lost. It panics if lead is nil. If lead panics, so does Run,
// and the lease is neither renewed nor released.
func (e *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	if lead == nil {
		panic(fmt.Sprintf("leader election: %s: Run was called with a nil function", failure.Place(1)))
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

// acquire campaigns until we hold the lease; it returns false if ctx is done.
func (e *Elector) acquire(ctx context.Context) (held term, ok bool) {
	e.opts.Logger.Debug("waiting for the lease", "identity", e.opts.Identity)
	e.seen.deleted = false // since the last Run, the lease may have been held again
	for {
		if ctx.Err() == nil {
			held, ok = e.campaign(ctx)
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

// campaign tries once to become the leader.
func (e *Elector) campaign(ctx context.Context) (term, bool) {
	seen := &e.seen
	limited, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline)
	defer cancel()
	failed := func(what string, err error) (term, bool) {
		if ctx.Err() == nil { // otherwise we are no longer campaigning
			e.trouble.Failed(what, err)
		}
		return term{}, false
	}
	const notTaken = "the lease is free but could not be taken"
	now, err := e.leases.Get(limited, e.opts.Name)
	write, there := e.leases.Update, int64(0)
	switch {
	case failure.Missing(err):
		write = e.create
		seen.missing(time.Now())
		if !seen.free(e.opts.LeaseDuration) {
			e.trouble.Answered()
			return term{}, false
		}
	case err != nil:
		return failed("the lease could not be read", err)
	default:
		seen.See(now, time.Now())
		seen.deleted = false
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
		return term{}, false // another candidate was faster; the next read will show it
	case err != nil:
		return failed(notTaken, err)
	}
	e.saw(taken, sent)
	if took := time.Since(sent); took >= e.opts.RenewDeadline {
		// The process was suspended, or the transport ignores its context.
		return failed("the lease was taken too late, and will expire unused", fmt.Errorf("the response arrived after %s", took))
	}
	seen.See(taken, sent)
	e.trouble.Answered()
	return term{lease: taken, sent: sent}, true
}

// serve calls lead and holds the lease until lead returns.
func (e *Elector) serve(ctx context.Context, held term, lead func(context.Context) error) error {
	e.update(func(s *Status) { s.Leading = true })
	e.opts.Logger.Info("leading", "identity", e.opts.Identity, "token", lease.Token(held.lease))
	working, lose := context.WithCancelCause(withToken(ctx, lease.Token(held.lease)))
	defer lose(nil)
	// The lease must outlive the work, so don't let ctx cancel it.
	k := e.keep(context.WithoutCancel(ctx), held, lose)
	end := func() {
		k.end()
		e.update(func(s *Status) { s.Leading, s.Lost = false, nil })
	}
	defer end() // even if lead panics or calls runtime.Goexit
	err := lead(working)
	end()
	if *e.opts.ReleaseOnCancel {
		e.release(context.WithoutCancel(ctx), k.held.lease)
	}
	if errors.Is(err, ErrLost) {
		return err // the work has already reported it
	}
	return errors.Join(k.lost, err)
}

// release releases the lease if it is still ours, so that other candidates do not have to wait. If that
// fails, they have to wait until it expires.
func (e *Elector) release(ctx context.Context, last *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline/3)
	defer cancel()
	now, err := e.leases.Change(ctx, last, e.ours(last), released)
	switch {
	case errors.Is(err, errTaken), failure.Missing(err):
	case err != nil:
		e.opts.Logger.Warn("the lease could not be released; others have to wait until it expires", "err", err)
	default:
		e.saw(now, time.Now())
		e.trouble.Answered()
	}
}

// saw records the observed state of the lease.
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
