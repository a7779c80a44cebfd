package conformance

import "context"

// Factory returns the same informer for equal requests.
type Factory interface {
	// Informer returns the factory's informer of all pods. The caller must not run it.
	Informer() (Informer, error)

	// Start starts all requested informers that are not running yet, and returns. They run until ctx is
	// done.
	Start(ctx context.Context)

	// Wait returns when all started informers have ended.
	Wait()
}

// Lending is a Factory that stops an informer when the last borrower has returned it.
type Lending interface {
	Borrow() (i Informer, giveBack func())
}
