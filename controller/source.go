package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/throttle"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/workqueue"
)

// A Source adds requests to a controller's queue. Sources are returned by For, Owns, Map, MapFunc,
// Handle, Channel and SourceFunc. A Source is a value and may be reused.
type Source struct {
	name     func() string
	cluster  string
	optional bool
	run      func(ctx context.Context, in *Inbox) error
	unsynced func() error                // returns why the source is not synced; nil if unknown
	syncedIn func(namespace string) bool // nil if the source's namespaces are unknown
	unserved func(namespace string) bool // reports whether the server may not serve the kind; nil if syncedIn is nil
	heldUp   func() bool                 // reports whether only namespaces whose lists fail are missing; nil if syncedIn is nil
	misuse   error                       // why the source is unusable
	place    string                      // file:line of the caller; if empty, that of the Watch call is used
	role     role
	sharded  *shardedCache // nil if the informer is not sharded
}

// role is how a source's objects relate to the reconciled kind.
type role uint8

const (
	roleOther      role = iota
	roleReconciled      // objects of the reconciled kind
	roleOwned           // objects owned by objects of the reconciled kind
)

// Err returns an error if the source is unusable, for example because its kind bypasses the cache.
// Controller.Run fails with this error.
func (s Source) Err() error {
	if s.run == nil {
		return errNoSource
	}
	return s.misuse
}

// misused returns s, marked as unusable with the reason wrong unless wrong is nil.
func (s Source) misused(wrong error) Source {
	s.misuse = cmp.Or(s.misuse, wrong)
	return s
}

// errNoSource is the error for the zero Source.
var errNoSource = errors.New("it is the zero Source: create one with For, Owns, Map, Handle, Channel or SourceFunc")

// String returns the source's name, or "source" if it has none.
func (s Source) String() string {
	if s.name != nil {
		if name := s.name(); name != "" {
			return name
		}
	}
	return "source"
}

// Named returns the source with a different name for status, causes and messages.
func (s Source) Named(name string) Source {
	s.name = func() string { return name }
	return s
}

// At returns the source with place, a file:line, as its origin in the status and in messages. The
// default is the line that calls Watch; use At in helpers that call Watch for their callers.
func (s Source) At(place string) Source {
	s.place = place
	return s
}

// InCluster returns the source with its requests assigned to a cluster, unless they already specify one.
func (s Source) InCluster(cluster string) Source {
	s.cluster = cluster
	return s
}

// Optional returns a source that the controller does not wait for while the server does not serve the kind,
// for example because its CRD is not installed. The informer polls until the kind appears, and the source
// then starts. If the kind disappears, its objects are deleted as usual. If syncing fails for any other
// reason, such as missing permissions, the controller still waits. Also set factory.For.Optional on the
// informer; otherwise the factory and the manager wait for it.
func (s Source) Optional() Source {
	s.optional = true
	return s
}

// SourceFunc returns a source that calls run, which must add requests to in until ctx is done. The first
// reconcile waits for run to call [Inbox.Synced]. If run fails or panics, the error is reported and run is
// called again with back-off. Once run returns nil, the source is finished.
func SourceFunc(name string, run func(ctx context.Context, in *Inbox) error) Source {
	if run == nil {
		panic(failure.Place(1) + ": the source's function is nil")
	}
	return Source{run: run}.Named(name)
}

// Channel returns a source that calls requests with each value from ch and adds the result, until ch is
// closed. If requests fails, the source reports the error and drops the value, as it cannot be received
// again.
func Channel[E any](name string, ch <-chan E, requests func(ctx context.Context, e E) ([]Request, error)) Source {
	if requests == nil {
		panic(failure.Place(1) + ": the source's function is nil")
	}
	return SourceFunc(name, func(ctx context.Context, in *Inbox) error {
		in.Synced()
		for e := range received(ctx, ch) {
			reqs, err := requests(ctx, e)
			if err != nil {
				in.Failed(err)
				continue
			}
			for _, req := range reqs {
				in.Add(Generic, req.Key, req)
			}
		}
		return nil
	})
}

// received yields the values of ch until it is closed or ctx is done.
func received[E any](ctx context.Context, ch <-chan E) iter.Seq[E] {
	return func(yield func(E) bool) {
		for {
			select {
			case e, ok := <-ch:
				if !ok || !yield(e) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// An Inbox receives a source's requests. Its methods are safe for concurrent use. They do nothing once
// the source has been removed or the controller has stopped.
type Inbox struct {
	core         *core
	requests     *requests
	subscription *subscription
	ctx          context.Context
}

// Add requests reconciles in response to a change to an object.
func (in *Inbox) Add(typ CauseType, about object.Key, reqs ...Request) {
	for _, req := range reqs {
		in.add(typ, about, req, placement{})
	}
}

// add is like Add, for a request with a known placement.
func (in *Inbox) add(typ CauseType, about object.Key, req Request, at placement) {
	if in.ctx.Err() != nil {
		return
	}
	if req.Cluster == "" {
		req.Cluster = in.subscription.source.cluster
	}
	in.subscription.added.Add(1)
	in.requests.enqueue(req, typ, in.subscription, about, at, typ.urgent(), workqueue.AddOptions{})
}

// Synced marks the source as synced. Call it once the requests for all preexisting objects have been added.
func (in *Inbox) Synced() {
	if in.ctx.Err() != nil {
		return
	}
	in.subscription.synced.Store(true)
	in.subscription.poke()
}

// Failed counts an error and reports it in the status. It logs the first of a run of errors at once, and
// the rest at a limited rate along with the number of errors skipped. Failed(nil) does nothing.
func (in *Inbox) Failed(err error) {
	if in.ctx.Err() != nil || err == nil {
		return
	}
	sub := in.subscription
	err = in.note(err)
	sub.reports.Do(func(more int) {
		logger := in.core.opts.Logger.With("controller", in.core.name, "source", sub.source.String())
		if more > 0 {
			logger = logger.With("more", more)
		}
		report(logger, "source failed", err)
	})
}

// note counts an error. It returns the error wrapped so that its methods cannot panic.
func (in *Inbox) note(err error) error {
	sub := in.subscription
	err = failure.Sound("source "+sub.source.String(), err)
	sub.failures.Add(1)
	sub.failure.Store(&err)
	return err
}

// subscription is a source added to a controller.
type subscription struct {
	source Source
	place  string // file:line of the Watch call, or the argument to Source.At
	poke   func() // makes a waiting controller check its sources again

	cancel context.CancelFunc // nil while not running; guarded by Controller.mu
	ended  chan struct{}      // closed when the last run has finished; guarded by Controller.mu
	misuse error              // why the source is unusable or conflicts with other sources of the controller; set before it runs

	synced   atomic.Bool
	finished atomic.Bool // run returned nil
	added    atomic.Uint64
	failures atomic.Uint64
	failure  atomic.Pointer[error]

	reports throttle.Log // limits the logging of failures
}

func (s *subscription) String() string { return s.source.String() }

// longRun is how long a source must run for its back-off to start again.
const longRun = 2 * time.Minute

// serve runs the source, restarting it after each failure, until ctx is done or the source is finished.
func (s *subscription) serve(ctx context.Context, in *Inbox) {
	backoff := workqueue.NewExponential[*subscription](workqueue.ExponentialOptions{Base: 100 * time.Millisecond, Max: time.Minute})
	for {
		began := time.Now()
		err := s.call(ctx, in)
		if time.Since(began) >= longRun {
			backoff.Forget(s)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.finished.Store(true)
			in.Synced()
			return
		}
		in.Failed(err)
		select {
		case <-time.After(max(backoff.When(s), retry(err).After)):
		case <-ctx.Done():
			return
		}
	}
}

// call runs the source once and converts a panic or runtime.Goexit to an error.
func (s *subscription) call(ctx context.Context, in *Inbox) error {
	if s.source.run == nil {
		return errNoSource
	}
	if s.misuse != nil {
		return s.misuse
	}
	return failure.Apart("source "+s.source.String(), func() error { return s.source.run(ctx, in) })
}

// waiting returns an error with the source and the reason why the controller must wait for it, or nil if
// it need not.
func (s *subscription) waiting() error {
	if s.synced.Load() {
		return nil
	}
	if err := s.unsynced(); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", s.source, errUnsynced)
}

// unsynced returns an error with the source and the reason why it is not synced, or nil if it is synced
// or the reason is unknown.
func (s *subscription) unsynced() error {
	if s.source.unsynced != nil {
		if err := s.source.unsynced(); err != nil {
			return err
		}
	}
	if failure := s.failure.Load(); failure != nil && !s.synced.Load() {
		return fmt.Errorf("%s: %w", s.source, *failure)
	}
	return nil
}

// errUnsynced is the reason given for sources that report none.
var errUnsynced = errors.New("it has not synced yet")

func (s *subscription) status() SourceStatus {
	status := SourceStatus{
		Name: s.source.String(), Optional: s.source.optional,
		Synced: s.synced.Load(), Ended: s.finished.Load(),
		Added: s.added.Load(), Failures: s.failures.Load(), Waiting: s.unsynced(),
	}
	if failure := s.failure.Load(); failure != nil {
		status.Failure = *failure
	}
	return status
}
