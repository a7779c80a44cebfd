package sharedinformer

import "github.com/millrace-dev/millrace/object"

// mailbox holds what one handler has still to hear of the log. It has two forms: a
// cursor holds on to the log itself, a coalescer keeps one entry per object.
type mailbox[T object.Object] interface {
	// offer tells of a segment that has been appended. It is called under
	// Informer.join.
	offer(s *segment[T])

	// next returns the next event, or a mark that stands before it, or neither.
	next() (e *Event[T], mark *segment[T])

	// heard counts the last event of next: the call about it has returned.
	heard()

	// telling returns the last event of next that has not been heard; nil if there is
	// none. It may be called by anybody.
	telling() *Event[T]

	// claimResync reports whether a resync may be put into the log for this handler.
	// Resyncs must not pile up before one that takes longer than their period:
	// changes would come ever later.
	claimResync() bool

	// resynced ends a claim: the handler has heard the whole resync.
	resynced()

	// load returns the figures for the status.
	load() load

	// clear drops what the handler has still to hear, and what is offered afterwards
	// too. It may be called by anybody, also while the handler is in a call.
	clear()
}

// load is what a mailbox holds and has done.
type load struct {
	pending   int    // events that have not been heard to the end
	delivered uint64 // events that have been heard
	merged    uint64 // events that need not be heard any more
}
