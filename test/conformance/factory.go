package conformance

import "context"

// Factory returns the same informer for identical requests.
type Factory interface {
	// Informer returns the factory's informer for all pods. The caller must not run it.
	Informer() (Informer, error)

	// Start starts all requested informers that are not running yet and returns immediately. They run until
	// ctx is done.
	Start(ctx context.Context)

	// Wait waits for all started informers to stop.
	Wait()
}

// Lending is a [Factory] that stops an informer when its last borrower returns it.
type Lending interface {
	Borrow() (i Informer, giveBack func())
}
