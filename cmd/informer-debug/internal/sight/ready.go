package sight

import "context"

// Ready waits until all of our own informers have synced. If ctx ends first, it returns an error that says what is
// missing.
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

// Unsynced says what our own informers have not received yet. It returns nil if nothing is missing.
func (v *Sight) Unsynced() error {
	for _, o := range v.Informers {
		if err := o.Unsynced(); err != nil {
			return err
		}
	}
	return nil
}

// Silent returns the error for a process that did not answer in time.
func (v *Sight) Silent() error { return v.Flags.Silent(v.Called) }
