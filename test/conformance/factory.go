package conformance

import "context"

// Factory has one informer for all who ask for the same.
type Factory interface {
	// Informer returns the factory's informer of all pods. Nobody calls its Run.
	Informer() (Informer, error)

	// Start runs what has been asked for and does not run yet, until ctx is done. It
	// does not wait.
	Start(ctx context.Context)

	// Wait returns when all that was started has ended.
	Wait()
}

// Lending is a Factory that stops an informer when the last who borrowed it has given it
// back.
type Lending interface {
	Borrow() (i Informer, giveBack func())
}
