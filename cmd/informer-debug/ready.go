package main

import (
	"context"
)

// ready waits until all informers of one's own have their objects. It fails where ctx is over
// before, and says what is missing.
func (v *sight) ready(ctx context.Context) error {
	if err := v.wait(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return nil
	}
	if err := v.unsynced(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// unsynced is what informers of one's own have not received yet; nil if nothing is missing.
func (v *sight) unsynced() error {
	for _, o := range v.informers {
		if err := o.Unsynced(); err != nil {
			return err
		}
	}
	return nil
}

// silent is the error of a process that had no time left to answer.
func (v *sight) silent() error { return v.flags.Silent(v.called) }
