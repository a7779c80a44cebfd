package envtest

import "context"

// turn is a lock, for whoever may give up waiting. Nothing waits for a turn while it holds
// Server.mu.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, and fails with the cause of ctx. Whoever has it must leave it.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) leave() { <-t }
