package sight

import "context"

// Ready waits until all informers of one's own have their objects. It fails where ctx is over
// before, and says what is missing.
func (v *Sight) Ready(ctx context.Context) error {
	if err := v.Wait(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return nil
	}
	if err := v.Unsynced(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Unsynced is what informers of one's own have not received yet; nil if nothing is missing.
func (v *Sight) Unsynced() error {
	for _, o := range v.Informers {
		if err := o.Unsynced(); err != nil {
			return err
		}
	}
	return nil
}

// Silent is the error of a process that had no time left to answer.
func (v *Sight) Silent() error { return v.Flags.Silent(v.Called) }
