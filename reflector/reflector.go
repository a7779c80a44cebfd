package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

const never = math.MinInt64

// ErrRunning is returned by Run if a previous Run has not returned.
var ErrRunning = errors.New("already running: stop it first")

// Reflector keeps one queue in sync with one source. Create one with [New].
type Reflector struct {
	source  source.ListerWatcher
	queue   Queue
	opts    Options
	invalid error // the error in the options, if any

	// Used only by Run, and preserved between runs.
	history
	watches
	resuming      *resumption // the saved state to start from; nil if none, or no longer needed
	owned         owned
	lastType      reflect.Type // the Go type of the last object
	pace          pacer
	relistLimiter *rate.Limiter    // rate-limits lists after gains
	lostAtStart   *failure.Failure // the value of lost when the current list began

	nudge    chan struct{}                   // holds a token to cut a back-off short
	lost     atomic.Pointer[failure.Failure] // see Relist; nil after a list has recovered from it
	endWatch atomic.Pointer[func(error)]     // nil while no watch is open

	created   time.Time                       // set by New
	heardAt   atomic.Int64                    // Status.Heard, in monotonic nanoseconds since created, or never
	inFlight  atomic.Pointer[source.Progress] // progress of the pending request
	calls     callMonitor                     // tracks transforms and hooks
	unordered atomic.Bool                     // the consumer accepted a late change

	mu     sync.Mutex // guards status; never held while calling other code
	status Status
}

// history is the reflector's position in the history of its source. It also determines how to read the next
// list.
type history struct {
	rv         string // all changes up to this version are queued; empty before the first list
	last       string // version of the last change or bookmark; lower than rv if versions are not ordered
	expired    bool   // the server cannot serve rv: list with a consistent read
	unpaged    bool   // a page token expired: list in one response
	newHistory bool   // the history was rolled back past rv, or may have been before the first list, so the next list must not reuse known objects
	rollbacks  int    // number of times the history was rolled back
}

// canWatch reports whether a watch can continue from this position.
func (h *history) canWatch() bool { return h.rv != "" && !h.expired }

// Queue receives changes in order. It is implemented by *deltafifo.DeltaFIFO.
type Queue interface {
	Add(deltafifo.Delta)
	// WaitForRoom is called before each change from a watch. It may block until ctx is done.
	WaitForRoom(ctx context.Context) error
	// NewHistoryQueued reports whether a list added with Delta.NewHistory is still queued. The reflector
	// passes an empty namespace to mean its own, as in the keys of its lists and bookmarks.
	NewHistoryQueued(namespace string) bool
}

// New returns a reflector that is not running yet. Run reports contradictory options; Status shows them
// immediately.
func New(from source.ListerWatcher, queue Queue, opts Options) *Reflector {
	opts, err := opts.withDefaults()
	r := &Reflector{source: source.Complete(from), queue: queue, opts: opts, nudge: make(chan struct{}, 1), pace: pacer{Backoff: opts.Timing.Backoff}}
	r.newHistory = opts.Consistent
	r.calls.log, r.calls.name = r.opts.Logger, r.Name
	r.pace.recall.OnDeaf(func() { r.Reconnect(ErrDeaf) })
	r.relistLimiter = rate.NewLimiter(2, 20)
	r.created = time.Now()
	r.heardAt.Store(never)
	r.status = Status{State: Idle, Since: r.created}
	if err != nil {
		r.invalid = err
		r.record(&failure.Failure{Phase: failure.PhaseOptions, Err: err})
	}
	return r
}

// Name returns the resource name used in messages. It may become more specific once a source that looks up
// its kind on first use has found it.
func (r *Reflector) Name() string {
	from := source.Describe(r.source)
	name := cmp.Or(r.opts.Name, from.Name)
	if r.opts.Namespace != "" && (r.opts.Name != "" || from.Namespace == "") {
		name += " in namespace " + r.opts.Namespace
	}
	if r.opts.Name != "" {
		return name
	}
	if !r.opts.LabelSelector.Empty() {
		name += " with labels " + r.opts.LabelSelector.String()
	}
	if !r.opts.FieldSelector.Empty() {
		name += " with fields " + r.opts.FieldSelector.String()
	}
	return name
}

// Status returns the current state of the reflector.
func (r *Reflector) Status() Status {
	name, waiting := r.Name(), r.waiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Resource, s.Waiting = name, waiting
	if at := r.heardAt.Load(); at != never {
		s.Heard = r.created.Add(time.Duration(at))
	}
	if s.recovered(time.Now(), r.pace.served()) {
		s.Attempts = 0
	}
	return s
}

// Run reflects the source. It returns nil when ctx is done, or the *Failure if OnError returns Stop. It fails
// immediately with ErrRunning if it is already running, or with a *Failure in PhaseOptions if the options are
// invalid. A later call resumes where the last one stopped (L24).
func (r *Reflector) Run(ctx context.Context) error {
	if r.invalid != nil {
		return r.Status().Failure
	}
	if !r.begin() {
		return fmt.Errorf("%s: %w", r.Name(), ErrRunning)
	}
	defer r.enter(Stopped)
	if r.resuming != nil {
		r.resuming = &resumption{SavedState: r.resuming.SavedState}
	}
	state, _ := r.relistInstead(ctx, r.firstState(), nil)
	for ctx.Err() == nil {
		state = r.listInsteadOfWatch(state)
		received := r.received
		fail, broken := r.step(ctx, state)
		if ctx.Err() != nil {
			r.noteHistory(state, fail)
			break
		}
		next, fail := r.nextState(state, fail, broken)
		r.noteOutcome(state, r.received-received, fail)
		if next, fail = r.relistInstead(ctx, next, fail); fail != nil {
			r.record(fail)
			if r.verdict(ctx, fail) == failure.Stop {
				return fail
			}
			r.backOff(ctx, fail)
		}
		state = next
	}
	return nil
}

// begin claims the reflector for one call to Run.
func (r *Reflector) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.State != Idle && r.status.State != Stopped {
		return false
	}
	// Failures from the previous run affect only the length of the next back-off.
	r.status.State, r.status.Since, r.status.Attempts = BackingOff, time.Now(), 0
	r.failing, r.status.Polling = watchFailures{}, false
	return true
}

// step runs one state until it ends and returns a failure, if any. It runs the state in a separate goroutine,
// so a source or transform that panics or calls runtime.Goexit cannot take down the reflector; broken reports
// whether this happened.
func (r *Reflector) step(ctx context.Context, state State) (f *failure.Failure, broken bool) {
	name := source.Describe(r.source).Name
	err := failure.Apart(name, func() error {
		if f = r.attempt(ctx, state); f != nil {
			f.Err = failure.Sound(name, f.Err)
		}
		return nil
	})
	if err == nil {
		return f, false
	}
	phase := failure.PhaseList
	switch {
	case state == Watching, state == InitialWatch, state == Resuming && r.canWatch(): // the saved state was queued and its watch continued
		phase = failure.PhaseWatch
	case state == Resuming && r.resuming != nil && !r.resuming.abandoned:
		r.resuming.countFailure()
	}
	return failed(ctx, phase, err), true
}

func (r *Reflector) attempt(ctx context.Context, state State) *failure.Failure {
	r.lostAtStart, r.owned.began = r.lost.Load(), r.gains()
	switch state {
	case Listing:
		r.enter(Listing)
		return r.list(ctx)
	case InitialWatch:
		r.enter(InitialWatch)
		return r.initialWatch(ctx)
	case Resuming:
		r.enter(Resuming)
		return r.resume(ctx)
	default:
		r.enter(Connecting)
		return r.watch(ctx)
	}
}

// enter changes the visible state.
func (r *Reflector) enter(state State) {
	r.update(func(s *Status) { s.State, s.Since, s.RetryAt = state, time.Now(), time.Time{} })
	r.announce()
}

func (r *Reflector) update(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// record completes a failure with data from the previous one and stores it in the status. It is called after
// the failed attempt has ended.
func (r *Reflector) record(f *failure.Failure) {
	now, name, expected := time.Now(), r.Name(), false
	r.update(func(s *Status) {
		if s.recovered(now, r.pace.served()) {
			s.Attempts = 0
		}
		expected = s.Polling && f.Phase != failure.PhaseList || s.NotServed() && f.NotServed()
		s.Failures++
		s.Attempts++
		f.Resource, f.Attempts, f.Since, f.Last = name, s.Attempts, now, now
		if s.Attempts > 1 && s.Failure != nil {
			f.Since = s.Failure.Since
		}
		s.Failure, s.serving = f, false
		select {
		case <-r.nudge: // a token left from an earlier back-off
		default:
		}
		if s.State != Idle { // at Idle the failure comes from New
			s.State, s.Since, s.RetryAt = BackingOff, now, time.Time{} // also while OnError runs
		}
	})
	r.log(f, expected)
}

// patientTries is how many times in a row the server may ask us to wait before a warning is logged. A server
// responds with 429 for a second or two after a kind is installed.
const patientTries = 3

// log logs a failure. Two kinds of failure are expected: a failing watch while polling, and a kind known not
// to be served, which is retried twice a minute until it is installed.
func (r *Reflector) log(f *failure.Failure, expected bool) {
	level := slog.LevelWarn
	if apierrors.IsTooManyRequests(f.Err) && f.Attempts <= patientTries || expected {
		level = slog.LevelDebug
	}
	attrs := []any{"resource", f.Resource, "phase", string(f.Phase)}
	if f.Key != (object.Key{}) {
		attrs = append(attrs, "key", object.FormatKey(f.Key))
	}
	attrs = append(attrs, "attempts", f.Attempts, "err", failure.Reason(f.Err))
	if f.Handler != "" {
		attrs = append(attrs, "in", f.Handler)
	}
	r.opts.Logger.Log(context.Background(), level, "reflector failure", append(attrs, failure.Stack(f.Err)...)...)
}

// resetAttempts ends a run of failures.
func (r *Reflector) resetAttempts() {
	r.update(func(s *Status) { s.Attempts = 0 })
}

// backOff waits before the next attempt, or until ctx is done.
func (r *Reflector) backOff(ctx context.Context, f *failure.Failure) {
	now := time.Now()
	retryAfter, _ := source.RetryAfter(f.Err)
	wait := r.pace.delay(now, retryAfter, progressOf(f), f.Phase == failure.PhaseWatch)
	r.update(func(s *Status) { s.State, s.Since, s.RetryAt = BackingOff, now, now.Add(wait) })
	r.announce()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.nudge:
	case <-ctx.Done():
	}
}

// RetryNow ends the current back-off, if any, and retries immediately. Call it when the cause of a failure
// has been removed, for example because another reflector has found that the kind is served. It is safe for
// concurrent use.
func (r *Reflector) RetryNow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.State != BackingOff {
		return
	}
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// Reconnect closes the current watch, if any, recording why as the failure, and reopens it from the last
// resource version after a back-off. Call it if a change known to be on the server has not arrived, which
// shows that the watch is dead. For example, a load balancer may keep a connection open after losing its own
// connection to the server. If why is ErrDeaf, the reflector first checks whether the server's history was
// rolled back, and if so lists. Reconnect is safe for concurrent use, and may be called with locks held.
func (r *Reflector) Reconnect(why error) {
	if end := r.endWatch.Load(); end != nil {
		(*end)(cmp.Or(why, ErrDeaf))
	}
}
