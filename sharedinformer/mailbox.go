package sharedinformer

// mailbox holds the events of the log that one handler has still to hear. It has two forms: a
// cursor holds on to the log itself, a coalescer keeps one entry per object.
type mailbox interface {
	// offer tells of a segment that has been appended. It is called under
	// core.join.
	offer(s *segment)

	// next returns the next events, or a mark that stands before them, or neither. It
	// is called when what it returned before has been heard.
	next() (events []event, mark *segment)

	// ack counts one event of next, in their order: the call about it has returned.
	ack()

	// current returns the first event of next that has not been acknowledged; nil if there is
	// none. It may be called by anybody.
	current() *event

	// claimResync reports whether a resync may be put into the log for this handler.
	// Resyncs must not pile up before one that takes longer than their period:
	// changes would come ever later.
	claimResync() bool

	// endResync ends a claim: the handler has heard the whole resync.
	endResync()

	// position returns up to which place of the log all has been heard; 0 where that is
	// not known.
	position() uint64

	// stats returns the figures for the status.
	stats() mailboxStats

	// clear drops what the handler has still to hear, and what is offered afterwards
	// too. It may be called by anybody. While the handler is running, what next returned
	// last is kept: a call about it may never return.
	clear(running bool)
}

// mailboxStats is what a mailbox holds and has done.
type mailboxStats struct {
	pending   int    // events that have not been heard to the end
	delivered uint64 // events that have been heard
	merged    uint64 // events that need not be heard any more
}
