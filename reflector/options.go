package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/internal/selector"
	"github.com/millrace-dev/millrace/wire"
)

// Initial selects how the initial state is read.
type Initial uint8

const (
	// Auto streams the initial state if the server supports it, and otherwise lists it.
	Auto Initial = iota
	// WatchList streams the initial state (KEP-3157). If the server refuses to stream, the attempt fails. If
	// the server's watch cache is too old to start the stream, or the stream does not end in time, the state
	// is listed.
	WatchList
	// List reads the initial state as a plain list.
	List
)

// String returns the name of the mode, as used by informer-debug's flag.
func (i Initial) String() string {
	switch i {
	case Auto:
		return "auto"
	case WatchList:
		return "watchlist"
	case List:
		return "list"
	}
	return "unknown"
}

// Options configure a Reflector. The zero value reflects everything from the source.
type Options struct {
	// Name identifies the reflector in messages. The default is the name in the source's Description
	// followed by the selectors. The namespace is appended.
	Name string

	// Namespace limits the reflector to one namespace; metav1.NamespaceAll means all of the source's
	// namespaces.
	Namespace string

	// LabelSelector and FieldSelector limit lists and watches on the server. Nil selects
	// everything.
	LabelSelector labels.Selector
	FieldSelector fields.Selector

	// Type, if not nil, is the required Go type of the objects: a pointer, or an interface that
	// they implement. Any other object fails with a *source.TypeError.
	Type reflect.Type

	// Packer, if not nil, is a *wire.Packer. The objects are then of type *wire.Packed and contain objects of
	// Type.
	Packer wire.PackerRef

	// Known, if not nil, looks up the consumer's objects, in the form in which they were queued. A source
	// returns an unchanged object from Known instead of decoding it again (see source.Request).
	Known wire.Cached

	// Ownership, if not nil, decides which objects are reflected. It makes the first list a
	// consistent read.
	Ownership Ownership

	// Initial selects how the initial state is read.
	Initial Initial

	// PageSize, if not 0, makes every list a consistent read in pages of that many items, and turns Auto into
	// List, because streams are not paged. By default the first list is read in one response from the
	// server's cache, which may lag a little, and later lists are consistent reads in pages of 500.
	PageSize int64

	// Consistent makes the first list a consistent read that does not reuse known objects. Set it if other
	// reflectors may have read the same objects before, because their state may be newer or belong to a
	// history that the server has since lost.
	Consistent bool

	// Timing sets timeouts for the server and delays between attempts.
	Timing Timing

	// OnError is called with each failure and decides whether to continue. It must return quickly, because
	// the reflector waits for it. An Informer also calls it for failures in index functions, handlers and
	// cached objects, so calls may be concurrent. Each function's failures are limited to ten per second
	// (failure.Failure.Others). If OnError is nil, every failure is retried.
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState is called whenever the state changes. It must return quickly, because the reflector waits for
	// it. An Informer for several namespaces has one reflector per namespace, so calls may be concurrent.
	OnState func(Status)

	// OnRollback is called when the reflector finds that the server's history was rolled back, before it lists
	// again. Until the next list with Delta.NewHistory is applied, the consumer's objects may belong to the lost
	// history, so they must not be saved. It must return quickly, because the reflector waits for it.
	OnRollback func()

	// Logger receives failures at level warn and state changes at level debug. Nil disables logging.
	Logger *slog.Logger
}

// Timing sets a reflector's timeouts for the server and its delays between attempts. The zero value selects
// the defaults.
type Timing struct {
	// WatchTimeout is the minimum lifetime requested for a watch. The actual lifetime is random, uniformly
	// distributed between WatchTimeout and twice that. The default is 5 min.
	WatchTimeout time.Duration

	// WatchMargin is how far a watch may exceed its lifetime before it is considered dead. The default is 30
	// s.
	WatchMargin time.Duration

	// StallTimeout is how long a list may stall, or the server may take to accept a watch, before the request
	// is abandoned. The default is 60 s, the API server's own limit for a list.
	StallTimeout time.Duration

	// StreamIdle and StreamTimeout limit a streaming list. StreamIdle limits the time until it is accepted
	// and then the time between events; StreamTimeout limits its total duration. Time spent in transforms is
	// not included. If a limit is exceeded, the reflector falls back to a plain list. A source that pauses at
	// the server's request (see source.Progress) may do so for up to StallTimeout. The defaults are 10 s and
	// 5 min.
	StreamIdle    time.Duration
	StreamTimeout time.Duration

	// Backoff sets the delay between attempts after failures.
	Backoff Backoff
}

// forever is the longest wait. Unlike math.MaxInt64, which a user may pass to mean never, it can be added to
// or doubled without overflow.
const forever = 50 * 365 * 24 * time.Hour

// withDefaults replaces zero values with defaults. It returns an error that lists all invalid or
// contradictory options.
func (o Options) withDefaults() (Options, error) {
	if o.LabelSelector == nil {
		o.LabelSelector = labels.Everything()
	}
	if o.FieldSelector == nil {
		o.FieldSelector = fields.Everything()
	}
	var errs []error
	def := func(name string, d *time.Duration, value time.Duration) {
		switch {
		case *d < 0:
			errs = append(errs, fmt.Errorf("%s is %s: must be positive, or 0 for %s", name, *d, value))
		case *d == 0:
			*d = value
		}
		*d = min(*d, forever)
	}
	def("Timing.WatchTimeout", &o.Timing.WatchTimeout, 5*time.Minute)
	def("Timing.WatchMargin", &o.Timing.WatchMargin, 30*time.Second)
	def("Timing.StallTimeout", &o.Timing.StallTimeout, time.Minute)
	def("Timing.StreamIdle", &o.Timing.StreamIdle, 10*time.Second)
	def("Timing.StreamTimeout", &o.Timing.StreamTimeout, 5*time.Minute)
	if o.Timing.WatchTimeout < time.Second {
		errs = append(errs, fmt.Errorf("Timing.WatchTimeout is %s: the API uses whole seconds, so it must be at least 1s", o.Timing.WatchTimeout))
	}
	if selector.NoLabels(o.LabelSelector) || selector.NoFields(o.FieldSelector) {
		errs = append(errs, errors.New("a selector that selects nothing: the server would treat it as one that selects more; leave out the informer"))
	}
	if o.PageSize < 0 {
		errs = append(errs, fmt.Errorf("PageSize is %d: must not be negative", o.PageSize))
	}
	if o.PageSize > 0 && o.Initial == WatchList {
		errs = append(errs, errors.New("PageSize with Initial WatchList: a streaming list has no pages; leave one of them out"))
	}
	if o.Initial > List {
		errs = append(errs, fmt.Errorf("unknown Initial %d", o.Initial))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Timing.Backoff = o.Timing.Backoff.withDefaults()
	return o, errors.Join(errs...)
}

// consistent reports whether the first list must be a consistent read.
func (o Options) consistent() bool { return o.Consistent || o.Ownership != nil }

// selectors returns the options shared by lists and watches.
func (o Options) selectors() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: o.LabelSelector.String(), FieldSelector: o.FieldSelector.String()}
}

// watchTimeout returns a random lifetime for one watch, in whole seconds.
func (o Options) watchTimeout() time.Duration {
	return (o.Timing.WatchTimeout + jitter.Below(o.Timing.WatchTimeout)).Truncate(time.Second)
}

// replayedLifetime returns the lifetime for a watch replayed from a recording: the recorded lifetime, clamped
// to the allowed range.
func (o Options) replayedLifetime(r *jitter.Recall, drawn time.Duration) time.Duration {
	return min(max(r.Lifetime(drawn), min(o.Timing.WatchTimeout, drawn)), max(2*o.Timing.WatchTimeout, drawn))
}
