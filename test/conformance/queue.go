package conformance

import "time"

// Queue is a work queue. A case shuts it down once.
type Queue interface {
	Add(key string)

	// Get waits for a key. It reports false when no more are handed out.
	Get() (key string, ok bool)

	// Done ends the work on a key.
	Done(key string)

	ShutDown()
}

// What a queue may offer besides. A case that needs one of these is not played without it.
type (
	// Draining shuts down and waits until all work is done.
	Draining interface{ Drain() }

	// Delaying adds a key later.
	Delaying interface {
		AddAfter(key string, after time.Duration)
	}

	// Limiting adds a key again after a failure, later each time, until it is forgotten.
	Limiting interface {
		AddRateLimited(key string)
		Forget(key string)
	}

	// Cancelling forgets a key, and its delayed add with it.
	Cancelling interface {
		ForgetAndCancel(key string)
	}

	// Ranking hands out higher priorities first. Add has zero.
	Ranking interface {
		AddWithPriority(key string, priority int)
	}
)
