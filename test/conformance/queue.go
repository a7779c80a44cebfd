package conformance

import "time"

// Queue is a work queue. Each case shuts it down once.
type Queue interface {
	Add(key string)

	// Get waits for a key. It returns false once the queue has shut down.
	Get() (key string, ok bool)

	// Done ends the work on a key.
	Done(key string)

	ShutDown()
}

// The optional features of a queue. A case that needs a missing feature is not played.
type (
	// Draining shuts down and waits until all work is done.
	Draining interface{ Drain() }

	// Delaying adds a key after a delay.
	Delaying interface {
		AddAfter(key string, after time.Duration)
	}

	// Limiting adds a key after a failure, with increasing delays until it is forgotten.
	Limiting interface {
		AddRateLimited(key string)
		Forget(key string)
	}

	// Cancelling forgets a key and cancels its delayed add.
	Cancelling interface {
		ForgetAndCancel(key string)
	}

	// Ranking hands out higher priorities first. Add has priority zero.
	Ranking interface {
		AddWithPriority(key string, priority int)
	}
)
