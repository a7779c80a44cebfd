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

// Initial says how the initial state is read.
type Initial uint8

const (
	// Auto streams it where the server can and lists it otherwise.
	Auto Initial = iota
	// WatchList streams it (KEP-3157). A server that refuses is a failure; one
	// whose watch cache is not fresh enough to begin the stream, or that does not
	// end it in time, is listed.
	WatchList
	// List reads a list.
	List
)

// String names the mode as the flag of informer-debug does.
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

// Options configure a Reflector. The zero value reflects everything that the
// source has.
type Options struct {
	// Name says in messages what is reflected. The default is what the
	// source's Description says, with the selectors. A Namespace is added.
	Name string

	// Namespace is the one whose objects are reflected; metav1.NamespaceAll for all that the source
	// has.
	Namespace string

	// LabelSelector and FieldSelector narrow what is listed and watched, on
	// the server. Nil means everything.
	LabelSelector labels.Selector
	FieldSelector fields.Selector

	// Type, if not nil, is the Go type that objects must have: a pointer, or an interface that it
	// implements. The source fails with a *source.TypeError for any other.
	Type reflect.Type

	// Packer, if not nil, is a *wire.Packer, which packs the objects: each is a *wire.Packed, of an object of Type.
	Packer wire.PackerRef

	// Known, if not nil, has the objects that the consumer has, as the queue was given them. A source
	// yields those themselves that have not changed (see source.Request).
	Known wire.Cached

	// Ownership, if not nil, says which objects are reflected. It makes the first list a
	// consistent read.
	Ownership Ownership

	// Initial says how the initial state is read.
	Initial Initial

	// PageSize, if not 0, makes every list a consistent read in pages of that
	// many items, and Auto a List, since a stream has no pages. The default reads a
	// first list in one response from the server's cache, which may lag a little
	// behind, and a later one as a consistent read in pages of 500.
	PageSize int64

	// Consistent makes the first list a consistent read too, which takes back no known
	// object. Set it where others have read the same objects before: their states may be
	// newer, or of a history that was lost since.
	Consistent bool

	// Timing says how long to wait for a server and between attempts.
	Timing Timing

	// OnError hears of each failure and decides whether to go on. It must
	// return soon: the reflector waits for it. An Informer passes
	// on what goes wrong with index functions, handlers and cached objects too,
	// so that there may be several calls at once; of one function that fails
	// often, ten failures a second (failure.Failure.Others). Nil means Retry.
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState hears of each change of state. It must return soon: the reflector
	// waits for it. An Informer of several namespaces has a reflector for
	// each, and calls it in several goroutines at once.
	OnState func(Status)

	// Logger hears of failures at level warn and of states at level debug. Nil
	// is silent.
	Logger *slog.Logger
}

// Timing says how long a reflector waits, for a server and between attempts. The
// zero value has the defaults.
type Timing struct {
	// WatchTimeout is the shortest time after which the server is asked to
	// close a watch; the longest is twice that, evenly spread. Default 5 min.
	WatchTimeout time.Duration

	// WatchMargin is how much longer than asked for a watch may last before
	// it counts as dead. Default 30 s.
	WatchMargin time.Duration

	// StallTimeout is how long a list may send nothing, and how long a watch may
	// take to be accepted, before it is given up.
	// Default 60 s, which is the API server's own limit for a list.
	StallTimeout time.Duration

	// StreamIdle and StreamTimeout bound a streaming list: how long it may
	// take to be accepted and then send nothing, and how long it may take, before a list
	// takes its place. The time in transforms does not count. A source that rests because
	// the server has asked it to (see source.Progress) may do so for StallTimeout.
	// Defaults 10 s and 5 min.
	StreamIdle    time.Duration
	StreamTimeout time.Duration

	// Backoff paces attempts after failures.
	Backoff Backoff
}

// forever is the longest that anything is waited for. Sums and doublings of it are still
// durations; those of math.MaxInt64, by which a user may mean never, are not.
const forever = 50 * 365 * 24 * time.Hour

// withDefaults fills in what was left zero, and reports every contradiction.
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
			errs = append(errs, fmt.Errorf("%s is %s: want a positive duration, or 0 for %s", name, *d, value))
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
		errs = append(errs, fmt.Errorf("Timing.WatchTimeout is %s: the API counts in seconds, want at least 1s", o.Timing.WatchTimeout))
	}
	if selector.NoLabels(o.LabelSelector) || selector.NoFields(o.FieldSelector) {
		errs = append(errs, errors.New("a selector that selects nothing: a server would read it as one that selects more; leave the informer out"))
	}
	if o.PageSize < 0 {
		errs = append(errs, fmt.Errorf("PageSize is %d: want 0 or more", o.PageSize))
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

// consistent reports whether the first list is a consistent read.
func (o Options) consistent() bool { return o.Consistent || o.Ownership != nil }

// selectors is the part of the request that is the same in lists and watches.
func (o Options) selectors() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: o.LabelSelector.String(), FieldSelector: o.FieldSelector.String()}
}

// watchTimeout draws the lifetime of one watch, in whole seconds.
func (o Options) watchTimeout() time.Duration {
	return (o.Timing.WatchTimeout + jitter.Below(o.Timing.WatchTimeout)).Truncate(time.Second)
}

// replayedLifetime is the lifetime of a watch that a recording answers: the one that was drawn
// then, within what may be drawn.
func (o Options) replayedLifetime(r *jitter.Recall, drawn time.Duration) time.Duration {
	return min(max(r.Lifetime(drawn), min(o.Timing.WatchTimeout, drawn)), max(2*o.Timing.WatchTimeout, drawn))
}
