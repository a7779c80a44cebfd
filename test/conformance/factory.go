package conformance

import "context"

// Factory returns the same informer for equal requests.
type Factory interface {
	// Informer returns the factory's informer of all pods. The caller does not run it.
	Informer() (Informer, error)

	// Start runs all requested informers that do not run yet, until ctx is done. It does not wait.
	Start(ctx context.Context)

	// Wait returns when all started informers have ended.
	Wait()
}

// Lending is a Factory that stops an informer when its last borrower has returned it.
type Lending interface {
	Borrow() (i Informer, giveBack func())
}
