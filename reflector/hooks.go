package reflector

import (
	"context"

	"github.com/millrace-dev/millrace/failure"
)

// callHook calls a hook of the user's. Whatever it does, the reflector goes on; as
// long as it blocks, the reflector waits, which the status and the log say.
func (r *Reflector) callHook(name string, hook func()) {
	r.calls.begin(call{kind: "hook", name: name})
	defer r.calls.stop()
	err := failure.Apart(name, func() error { hook(); return nil })
	if err != nil {
		r.opts.Logger.Error("reflector hook", append([]any{"resource", r.Name(), "err", err}, failure.Stack(err)...)...)
	}
}

// verdict asks OnError what to do. One that fails has said nothing.
func (r *Reflector) verdict(ctx context.Context, f *failure.Failure) failure.Verdict {
	v := failure.Retry
	if r.opts.OnError != nil {
		r.callHook("OnError", func() { v = r.opts.OnError(ctx, f) })
	}
	return v
}

// announce tells OnState where the reflector is.
func (r *Reflector) announce() {
	status := r.Status()
	r.opts.Logger.Debug("reflector state", "resource", status.Resource, "state", status.State.String(), "rv", status.RV)
	if r.opts.OnState != nil {
		r.callHook("OnState", func() { r.opts.OnState(status) })
	}
}
