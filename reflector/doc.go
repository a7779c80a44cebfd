// Package reflector keeps a queue in sync with the API server: it lists a resource once, watches it from
// then on, and queues the changes in the order in which the server sends them.
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
//	  │              rolled back              └───┼─────────┘
//	  └───────────────────────────────────────────┘ a second Run resumes
//
// If the first run has a saved state (Resume), it starts in Resuming instead. From there it goes to Watching
// once the server has confirmed or corrected the state, or else to InitialWatch or Listing.
//
// Any state may lead to Stopped, or to BackingOff, which remembers the state to continue with. The constants
// of State document how each state handles failures.
//
// # Decisions
//
// Each state has a function that runs until the state ends and returns a failure, if any. relist.go then
// chooses the next state: it decides when a list is needed, when to fall back from a streaming list to a
// plain one, and when to list instead of opening the next watch because queued data was lost or objects were
// gained. polling.go makes the reflector list instead of watching if watches fail for too long.
//
// # Consumers
//
// The queue receives single changes, bookmarks, and complete lists (deltafifo.Replaced), including streaming
// ones. An informer compares a list with its cache, so its handlers receive only the difference; a deletion
// that the watch missed arrives with sharedinformer.Event.FinalStateUnknown.
//
// The queue's consumer reports back to the reflector. It calls Settle for each late change, Relist if data
// was lost or objects were gained, Reconnect if the watch delivers nothing, and RetryNow if the cause of a
// failure has been removed. Resume makes the first run start from the state that an earlier process saved.
//
// # Guarantees
//
// Once failures are over, the queue has received exactly the difference between its earlier state and the
// server's (L17). A watch resumes from the last resource version. The reflector relists only (L19)
//
//   - if that version has expired (410 Gone), or the server's history was rolled back past it;
//   - if decoding or transforming the next change failed three times in a row, because by then the object
//     may have changed again;
//   - if the consumer has lost data (Relist);
//   - if it has gained objects (Ownership);
//   - if watches keep failing: for a minute if the server refuses them, for ten minutes if it does not
//     respond (Status.Polling).
//
// If a streaming list does not end, the reflector falls back to a plain list. If a watch or list stalls, it
// is abandoned and reopened (L20). The resource version never advances past a change that was not queued
// (L21). Every failure appears in Status and is passed to Options.OnError (L22). Status.Heard is the time
// when the server last confirmed the state.
//
// If the server's versions are not ordered across objects, changes are still queued, marked as
// late, and Status reports it.
//
// # Concurrency
//
// Run occupies one goroutine. It calls the source, OnError and OnState in other goroutines, one at a time,
// and waits for them. Status, RetryNow, Reconnect and Relist are safe for concurrent use.
//
// # Failure
//
// A *failure.Failure carries the phase and the cause. Run returns only when its context is done or OnError
// returns Stop; a panic or Goexit in the source, a transform or a hook does not make it return.
//
// # Debugging
//
// Status counts lists, relists, watches, events and failures. It also reports when the reflector entered its
// current state and when it will retry.
package reflector
