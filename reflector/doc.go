// Package reflector keeps a queue in step with the API server: it lists a
// resource once, watches it from there, and tells the queue of each change in
// the order in which the server made them.
//
// # Usage
//
//	queue := deltafifo.New(deltafifo.Options{})
//	r := reflector.New(pods, queue, reflector.Options{})
//	err := r.Run(ctx)
//
// # The state machine
//
//	Idle ──► InitialWatch ──(end bookmark)──────────► Watching
//	  │          │ refused, late, failed                ▲   │
//	  │          ▼                            accepted  │   │ closed, failed
//	  ├────►  Listing ──(whole list)──────► Connecting ─┘   │
//	  │          ▲                            ▲   ▲         │
//	  │          └── expired, unreadable, ────┼───┼─────────┤
//	  │              gone back                └───┼─────────┘
//	  └───────────────────────────────────────────┘ a second Run resumes
//
// A first run that was given an earlier state (Resume) begins with Resuming instead, which
// goes on to Watching when the server has confirmed or corrected it, and otherwise to
// InitialWatch or Listing.
//
// Every state may go to BackingOff, which remembers where to go on, and to
// Stopped. State says what each of them does on failure.
//
// # Decisions
//
// The function of a state runs it to its end and returns why it failed, if it did. relist.go then
// chooses the next state: it says when a list follows and when a streaming list gives way to one, and
// has a list replace the next watch if something that was queued is lost or if objects came to be owned.
// polling.go does so if watches fail for too long.
//
// # Consumers
//
// The consumer of the queue reports back: Settle whether a late change was news, Relist that something
// was lost or that objects came to be owned, Reconnect that the watch is deaf, RetryNow that the cause of
// a failure is gone. Resume gives the first run the state that an earlier process saved.
//
// # Guarantees
//
// When the failures have ended, the queue has been told exactly the difference
// between the set it knew and the server's (L17). A watch resumes from the last
// resource version. A list follows only if that has expired, if the server's history
// went back behind it, or if the change after it could not be decoded or transformed
// three times in a row: by then the object may be another one (L19); or if the consumer has
// lost something (Relist); or if watches keep failing: for a minute if the server refuses
// them, for ten if it does not answer (Status.Polling). Status.Heard says when the server last
// told of the state. A streaming list
// without its end falls back to a list. A watch or list that falls silent is given up
// and opened again (L20). The resource version never passes a change that was not
// queued (L21). Every failure is in Status and goes to Options.OnError (L22).
//
// Where the server's versions do not grow over all objects, changes are queued all the
// same, marked as late, and Status says so.
//
// # Concurrency
//
// Run belongs to one goroutine. It waits for those in which it calls the source,
// OnError and OnState, one at a time. Status, RetryNow, Reconnect and Relist may be called from
// anywhere.
//
// # Failure
//
// A *failure.Failure carries the phase and the cause. Only the context and a Stop from
// OnError end Run; a panic or a Goexit of the source, a transform or a hook does not.
//
// # Debugging
//
// Status counts lists, relists, watches, events and failures. It says since when the
// reflector has been in its state and when it will try again.
package reflector
