package conformance

import "time"

// Queue is a work queue. Each case shuts it down once.
type Queue interface {
	Add(key string)

	// Get waits for a key. It returns false once the queue has shut down.
	Get() (key string, ok bool)

	// Done marks a key as processed.
	Done(key string)

	ShutDown()
}

// Optional queue features. A case that needs a missing feature does not run.
type (
	// Draining is a [Queue] that can shut down and wait for all work to finish.
	Draining interface{ Drain() }

	// Delaying is a [Queue] that can add a key after a delay.
	Delaying interface {
		AddAfter(key string, after time.Duration)
	}

	// Limiting is a [Queue] that re-adds a key after a failure, with increasing delays until the key is
	// forgotten.
	Limiting interface {
		AddRateLimited(key string)
		Forget(key string)
	}

	// Cancelling is a [Queue] that can forget a key and cancel its delayed adds.
	Cancelling interface {
		ForgetAndCancel(key string)
	}

	// Ranking is a [Queue] that hands out keys with higher priority first. Add uses priority zero.
	Ranking interface {
		AddWithPriority(key string, priority int)
	}
)
