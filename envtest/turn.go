package envtest

import "context"

// turn is a mutex whose Lock can be canceled. Never wait for a turn while holding Server.mu.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take acquires the turn, or fails with ctx's cause if ctx is done first. The caller must call
// leave.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) leave() { <-t }
