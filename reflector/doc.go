// Package reflector keeps a queue in step with the API server: it lists a resource once, watches it
// from there, and queues each change in the server's order.
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
// If the first run was given a saved state (Resume), it starts in Resuming instead. It continues with
// Watching once the server has confirmed or corrected the state, or else with InitialWatch or Listing.
//
// Every state may lead to Stopped, or to BackingOff, which remembers the state to continue with. The
// constants of State document how each state handles failures.
//
// # Decisions
//
// The function of a state runs it to its end and returns a failure, if any. relist.go then chooses the
// next state: it decides when a list is needed, when a streaming list is replaced by a plain one, and
// that a list replaces the next watch if queued data was lost or objects were gained. polling.go makes a
// list replace the next watch if watches fail for too long.
//
// # Consumers
//
// The consumer of the queue reports back. It calls Settle for each late change, Relist if something was
// lost or gained, Reconnect if the watch delivers nothing, and RetryNow if the cause of a failure has
// been removed. Resume gives the first run the state saved by an earlier process.
//
// # Guarantees
//
// Once failures have ended, the queue has received exactly the difference between the set that it knew
// and the server's (L17). A watch resumes from the last resource version. The reflector lists again only
// (L19)
//
//   - if that version has expired, or the server's history went back behind it;
//   - if the next change could not be decoded or transformed three times in a row: the
//     object may have changed by then;
//   - if the consumer has lost something (Relist);
//   - if watches keep failing: for a minute if the server refuses them, for ten minutes
//     if it does not answer (Status.Polling).
//
// If a streaming list does not end, a plain list replaces it. If a watch or list falls silent, it is
// abandoned and reopened (L20). The resource version never passes a change that was not queued (L21).
// Every failure appears in Status and is passed to Options.OnError (L22). Status.Heard is the time when
// the server last confirmed the state.
//
// If the server's versions are not ordered across objects, changes are still queued, marked as
// late, and Status reports it.
//
// # Concurrency
//
// Run occupies one goroutine. It calls the source, OnError and OnState in other goroutines, one at
// a time, and waits for them. Status, RetryNow, Reconnect and Relist may be called from any
// goroutine.
//
// # Failure
//
// A *failure.Failure carries the phase and the cause. Only the context and a Stop from OnError end
// Run; a panic or Goexit in the source, a transform or a hook does not.
//
// # Debugging
//
// Status counts lists, relists, watches, events and failures. It shows when the reflector entered
// its state and when it will retry.
package reflector
