package sight

import "context"

// Ready waits until all of our own informers have synced. If ctx is done first, it returns an error
// describing what is missing.
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

// Unsynced returns an error describing what our own informers have not received yet, or nil if nothing
// is missing.
func (v *Sight) Unsynced() error {
	for _, o := range v.Informers {
		if err := o.Unsynced(); err != nil {
			return err
		}
	}
	return nil
}

// Silent returns the error for a process that did not respond in time.
func (v *Sight) Silent() error { return v.Flags.Silent(v.Called) }
