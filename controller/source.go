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

// Source is where requests come from. It is made by For, Owns, Map, MapFunc, Handle,
// Channel and SourceFunc, and is a value that may be used more than once.
type Source struct {
	name     func() string
	cluster  string
	optional bool
	run      func(ctx context.Context, in *Inbox) error
	unsynced func() error                // what is not synced and why, nil if there is nothing to say
	syncedIn func(namespace string) bool // nil if its namespaces are not known
	heldUp   func() bool                 // namespaces whose lists fail are all that is missing; nil as syncedIn
	misuse   error                       // why it can never work
	place    string                      // file:line of the caller; empty is that of Watch
	role     role
	sharded  *shardedCache // nil where its informer, if it has one, holds everything
}

// role is what the objects of a source are to the reconciler.
type role uint8

const (
	roleOther      role = iota
	roleReconciled      // the kind it is called for
	roleOwned           // what belongs to it
)

// Err says why the source can never work, such as one of a kind that bypasses the
// cache. It is nil if the source may work. Controller.Run fails with it.
func (s Source) Err() error {
	if s.run == nil {
		return errNoSource
	}
	return s.misuse
}

// misused returns the source with an error of its predicates, nil for none.
func (s Source) misused(wrong error) Source {
	s.misuse = cmp.Or(s.misuse, wrong)
	return s
}

// errNoSource: the zero value is not a source.
var errNoSource = errors.New("it is the zero Source: make one with For, Owns, Map, Handle, Channel or SourceFunc")

// String returns the source's name; "source" where it was given none.
func (s Source) String() string {
	if s.name != nil {
		if name := s.name(); name != "" {
			return name
		}
	}
	return "source"
}

// Named returns the source under another name, for status, causes and messages.
func (s Source) Named(name string) Source {
	s.name = func() string { return name }
	return s
}

// At returns the source with the place, file:line, that status and messages give for
// it. It is for who calls Watch for others; else it is the place of that call.
func (s Source) At(place string) Source {
	s.place = place
	return s
}

// InCluster returns the source with all requests that name no cluster marked as
// of the given one.
func (s Source) InCluster(cluster string) Source {
	s.cluster = cluster
	return s
}

// Optional returns the source as one that the controller does not wait for as
// long as the server does not serve its kind, such as that of a custom resource
// definition that is not installed. It begins when the kind appears: the informer
// goes on asking. When the kind goes, its objects are deleted like any others.
// Other reasons not to sync, such as missing rights, hold the controller up. So that a
// factory and a manager do not wait either, ask for the informer with
// factory.For.Optional.
func (s Source) Optional() Source {
	s.optional = true
	return s
}

// SourceFunc returns a source made of a function, which adds requests to in
// until ctx is done. The controller waits with the first reconcile until
// in.Synced is called. An error or a panic is reported, and the function is
// called again after a back-off. When it returns nil, the source has ended.
func SourceFunc(name string, run func(ctx context.Context, in *Inbox) error) Source {
	if run == nil {
		panic(failure.Place(1) + ": the function of a source is nil")
	}
	return Source{run: run}.Named(name)
}

// Channel returns a source that asks for the requests that requests makes of
// each value from ch, until ch is closed. An error is reported with the source
// and the value is dropped: a channel has nothing that could be read again.
func Channel[E any](name string, ch <-chan E, requests func(ctx context.Context, e E) ([]Request, error)) Source {
	if requests == nil {
		panic(failure.Place(1) + ": the function of a source is nil")
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

// received yields what comes from ch until it is closed or ctx is done.
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

// Inbox is what a source adds requests to. Its methods may be called from any
// goroutine; after the source was removed or the controller has stopped they do
// nothing.
type Inbox struct {
	core         *core
	requests     *requests
	subscription *subscription
	ctx          context.Context
}

// Add asks for reconciles because of something that happened to an object.
func (in *Inbox) Add(typ CauseType, about object.Key, reqs ...Request) {
	for _, req := range reqs {
		in.add(typ, about, req, placement{})
	}
}

// add is Add of a request that belongs somewhere.
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

// Synced says that the source has added the requests for all that was there when
// it began.
func (in *Inbox) Synced() {
	if in.ctx.Err() != nil {
		return
	}
	in.subscription.synced.Store(true)
	in.subscription.poke()
}

// Failed reports an error: it is counted and shown in the status. The first of a
// series is logged, and then one now and then, with how many came in between. Failed(nil)
// does nothing.
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

// note counts an error, and returns it as one whose methods do not panic.
func (in *Inbox) note(err error) error {
	sub := in.subscription
	err = failure.Sound("source "+sub.source.String(), err)
	sub.failures.Add(1)
	sub.failure.Store(&err)
	return err
}

// subscription is one source at one controller.
type subscription struct {
	source Source
	place  string // file:line of Watch, or the place that Source.At gave
	poke   func() // lets a controller that waits look again whether all are synced

	cancel context.CancelFunc // nil while not running; guarded by Controller.mu
	ended  chan struct{}      // closed when the last run has ended; guarded by Controller.mu
	misuse error              // why it does not go with the controller's others; set before it runs

	synced   atomic.Bool
	finished atomic.Bool // run returned nil
	added    atomic.Uint64
	failures atomic.Uint64
	failure  atomic.Pointer[error]

	reports throttle.Log // of its failures
}

// String names the source.
func (s *subscription) String() string { return s.source.String() }

// serve runs the source until ctx is done or it has ended by itself.
func (s *subscription) serve(ctx context.Context, in *Inbox) {
	backoff := workqueue.NewExponential[*subscription](workqueue.ExponentialOptions{Base: 100 * time.Millisecond, Max: time.Minute})
	for {
		err := s.call(ctx, in)
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

// call makes an error of a panic, and of a source that ends its goroutine.
func (s *subscription) call(ctx context.Context, in *Inbox) error {
	if s.source.run == nil {
		return errNoSource
	}
	if s.misuse != nil {
		return s.misuse
	}
	return failure.Apart("source "+s.source.String(), func() error { return s.source.run(ctx, in) })
}

// waiting names the source and says why the controller has to wait for it, nil if
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

// unsynced names the source and says why it is not synced, nil if it is or cannot
// tell.
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

// errUnsynced is why a source is waited for that says nothing itself.
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
