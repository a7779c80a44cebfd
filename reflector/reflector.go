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

// ErrRunning: Run was called while it runs.
var ErrRunning = errors.New("already running: stop it first, one at a time")

// Reflector keeps one queue in step with one source. Make it with New.
type Reflector struct {
	source  source.ListerWatcher
	queue   Queue
	opts    Options
	invalid error // what is wrong with the options

	// Run's own, kept between two runs.
	history
	watches
	resuming      *resumption // to begin with; nil where there is none, or none any more
	owned         owned
	lastType      reflect.Type // the Go type of the last object
	pace          pacer
	relistLimiter *rate.Limiter    // of lists that follow gains
	lostAtStart   *failure.Failure // what lost was when the list in progress began

	nudge    chan struct{}                   // holds a token when a back-off is to end
	lost     atomic.Pointer[failure.Failure] // see Relist; nil when a list has made up for it
	endWatch atomic.Pointer[func(error)]     // nil while there is no watch that could be ended

	created   time.Time                       // by New
	heardAt   atomic.Int64                    // Status.Heard, in nanoseconds since created, which steps of the clock leave alone; or never
	inFlight  atomic.Pointer[source.Progress] // of the request that has not been answered
	calls     callMonitor                     // of transforms and hooks
	unordered atomic.Bool                     // the consumer took a late change

	mu     sync.Mutex // guards status; nothing is called while it is held
	status Status
}

// history is how far the reflector has come in the history of its source, and how the next list has to be
// read.
type history struct {
	rv         string // all changes up to here are queued; empty before the first list
	last       string // that of the last change or bookmark, which is below rv if versions are not ordered
	expired    bool   // rv is of no use to the server: list with a consistent read
	unpaged    bool   // a page's token expired: list in one response
	newHistory bool   // the history went back behind rv, or may have before the first list: a list takes back no known object
	rollbacks  int    // how often it did
}

// canWatch reports whether a watch can go on from here.
func (h *history) canWatch() bool { return h.rv != "" && !h.expired }

// Queue is told of the changes in the order in which they came. *deltafifo.DeltaFIFO
// is one.
type Queue interface {
	Add(deltafifo.Delta)
	// WaitForRoom is called before each change of a watch. It may hold it up, for as
	// long as ctx lasts.
	WaitForRoom(ctx context.Context) error
	// NewHistoryQueued reports whether a list that the reflector added with Delta.NewHistory has
	// not been taken yet. The reflector passes an empty namespace, which stands for its own, as it does
	// in the keys of lists and bookmarks.
	NewHistoryQueued(namespace string) bool
}

// New returns a reflector that is not running. Options that contradict each
// other are reported by Run, and in Status at once.
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

// Name is what messages call the resource. A source that finds out where its
// kind is served only when it is used may have a better name afterwards.
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

// Status returns the reflector as it is now.
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

// Run reflects until ctx is done, and then returns nil, or until OnError says
// Stop, and then returns the *Failure. It fails at once with ErrRunning, and
// with a *Failure of PhaseOptions. Called again after it returned, it resumes
// from where it was (L24).
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

// begin claims the reflector for one Run.
func (r *Reflector) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.State != Idle && r.status.State != Stopped {
		return false
	}
	// The failures of the run before say nothing about this one; how long to
	// wait after the next one is still theirs to tell.
	r.status.State, r.status.Since, r.status.Attempts = BackingOff, time.Now(), 0
	r.failing, r.status.Polling = watchFailures{}, false
	return true
}

// step does what state is about, and returns why it ended; nil if it ended well. It has a goroutine of
// its own, so that neither a source nor a transform that panics or calls runtime.Goexit can end the
// reflector: broken says that one has done so.
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
	case state == Watching, state == InitialWatch, state == Resuming && r.canWatch(): // the set was, and a watch went on
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

// enter changes the state that the world sees.
func (r *Reflector) enter(state State) {
	r.update(func(s *Status) { s.State, s.Since, s.RetryAt = state, time.Now(), time.Time{} })
	r.announce()
}

func (r *Reflector) update(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// record completes a failure from what came before it and shows it. What failed is over.
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
		s.Failure = f
		if s.State != Idle { // else it is one of New
			s.State, s.Since, s.RetryAt = BackingOff, now, time.Time{} // also while OnError is asked
		}
	})
	r.log(f, expected)
}

// patientTries is how many requests for patience in a row are nothing to warn of.
// A server answers 429 for a second or two when a kind has just been installed.
const patientTries = 3

// log logs a failure. While polling, watches are expected to fail, and so is each attempt at a
// kind that the server does not serve, once that is known: it comes twice a minute for as long as the
// kind is not installed.
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

// resetAttempts ends a series of failures.
func (r *Reflector) resetAttempts() {
	r.update(func(s *Status) { s.Attempts = 0 })
}

// backOff waits before the next attempt, or until ctx is done.
func (r *Reflector) backOff(ctx context.Context, f *failure.Failure) {
	now := time.Now()
	retryAfter, _ := source.RetryAfter(f.Err)
	wait := r.pace.delay(now, retryAfter, progressOf(f), f.Phase == failure.PhaseWatch)
	select {
	case <-r.nudge: // for a wait that has ended
	default:
	}
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

// RetryNow ends the back-off in progress, if there is one: the next attempt is made at
// once. It is for callers that know that the cause of a failure is gone, such as
// a kind that another reflector has found to be served. It may be called from
// anywhere.
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

// Reconnect ends the watch in progress, if there is one, and opens another from the last
// resource version, after a back-off: why is the failure. It is for callers that know that
// the watch is deaf, because something that the server has done is not shown. No message says so
// where a load balancer keeps a connection open whose other half is gone. If why is ErrDeaf, the
// server is asked first whether its history went back, and then a list follows. It may be called
// from anywhere, under any lock.
func (r *Reflector) Reconnect(why error) {
	if end := r.endWatch.Load(); end != nil {
		(*end)(cmp.Or(why, ErrDeaf))
	}
}
