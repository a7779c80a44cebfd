// Package reflector keeps a queue in step with the API server: it lists a
// resource once, watches it from there, and tells the queue of each change in
// the order in which the server made them.
//
// # Usage
//
//	queue := deltafifo.New[*corev1.Pod](deltafifo.Options{})
//	r := reflector.New(pods, queue, reflector.Options{})
//	err := r.Run(ctx)
//
// # The state machine
//
//	Idle ──► InitialWatch ──(end bookmark)──► Watching ◄─┐ closed by the server
//	  │          │ refused, late, failed        │  │ └───┘
//	  │          ▼                              │  │
//	  ├────►  Listing ──(whole list)────────────┘  │
//	  │          ▲                                 │
//	  │          └─ expired, or ─ BackingOff ◄─────┘ failed
//	  │             unreadable
//	  └────►  Watching (a second Run resumes from the RV of the first)
//
// Every state may go to BackingOff, which remembers where to go on, and to
// Stopped. State says what each of them does on
//
// # Guarantees
//
// After any failure that ends, the queue has been told exactly what makes the
// set that it was told before equal to the server's (L17). A watch resumes from
// the last resource version; a list follows only where that has expired, or
// where the change behind it could not be decoded or transformed three times in
// a row, as by now the object may be another one (L19). A streaming list without
// its end falls back to a list, and a watch or list that falls silent is given
// up and opened again (L20). The resource version never passes a change that was
// not queued (L21). Every failure is in Status and goes to Options.OnError (L22).
//
// # Concurrency
//
// Run belongs to one goroutine, in which OnError and OnState are called
// too. Status may be called from anywhere.
//
// # Failure
//
// Failure carries the phase and the cause. Nothing but the context and a Stop
// from OnError ends Run.
//
// # Debugging
//
// Status counts lists, relists, watches, events and failures, and says since
// when the reflector has been in its state and when it will try again.
package reflector
