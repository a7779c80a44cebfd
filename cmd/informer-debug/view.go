package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Why a view ends, beside the signal and a failure.
var (
	errCounted  = errors.New("the number of changes asked for was shown")
	errTimedOut = errors.New("the time asked for is over")
	errDuration = errors.New("the demonstration is over")
)

// firstTries is how often a first list is tried before the server counts as
// not available: about three seconds.
const firstTries = 3

// view shows one informer until it has shown enough.
type view struct {
	*job
	target  target
	printer printer
	tally   tally
	doubts  []string // about snapshots, that were told
}

// sourceOf is what a view reads.
func sourceOf[T object.Object](t target) source.ListerWatcher[T] {
	return rest.ResourceForMapping[T](t.client, t.mapping).Namespace(t.namespace).Sharing(wire.NewPool())
}

// show runs an informer and shows what its only handler hears.
func show[T object.Object](ctx context.Context, v *view) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var informer *sharedinformer.Informer[T]
	informer = sharedinformer.New(sourceOf[T](v.target), sharedinformer.Options{
		Snapshot:      v.flags.snapshots(),
		LabelSelector: v.flags.labels,
		FieldSelector: v.flags.fields,
		Initial:       v.flags.initialMode(),
		Timing:        v.timing,
		Flight:        v.company.flight(),
		OnState:       v.state,
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			if v.recording != nil {
				return judgeReplayed(f)
			}
			return judge(f, informer.HasSynced())
		},
		SyncPatience: -1,
	})
	v.printer = newPrinter(v.surroundings, v.flags, v.target.mapping.Resource, func() (w widths) {
		for o := range informer.Cache().All() {
			w.fit(identity(o))
		}
		return w
	})
	informer.AddHandlerWith(sharedinformer.HandlerFunc[T](func(_ context.Context, e sharedinformer.Event[T]) error {
		if ctx.Err() == nil {
			v.handle(changeOf(&e), end)
		}
		return nil
	}), sharedinformer.HandlerOptions{Name: "view"})

	began := time.Now()
	var waits sync.WaitGroup
	var unsynced error
	// The informer stops only when it has been asked what it was waiting for.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	waits.Go(func() {
		if unsynced = informer.WaitForSync(ctx); unsynced == nil {
			v.console.state(time.Now(), "%-12s  %d objects in %s", "synced", informer.Cache().Len(), short(time.Since(began)))
			v.noteSnapshot(informer.Status().Snapshot)
			if informer.Cache().Len() == 0 {
				v.target.doubtNamespace(ctx, v.console)
			}
		}
		<-ctx.Done()
		stop()
	})
	if v.recording != nil {
		waits.Go(func() { end(v.played(ctx, informer.Status)) })
	}
	var alone error // what the company ended with
	if v.company != nil {
		wait, err := accompany(ctx, v.company, informer)
		if err != nil {
			end(&exitError{code: exitRuntime, err: err})
		} else {
			waits.Go(func() { alone = wait() })
		}
	}
	failure := informer.Run(running)
	end(nil)
	waits.Wait()
	if failure == nil {
		failure = alone
	}
	if status := informer.Status(); status.Synced {
		v.noteSnapshot(status.Snapshot)
		v.summary(status, time.Since(began))
	}
	return v.outcome(context.Cause(ctx), failure, unsynced)
}

// noteSnapshot says why --snapshot is of no use, if it is not, and each reason once.
func (v *view) noteSnapshot(s *sharedinformer.SnapshotStatus) {
	if s == nil {
		return
	}
	reasons := []string{s.Off, s.Unused}
	if s.Failure != nil {
		reasons = append(reasons, failureText(s.Failure))
	}
	for _, why := range reasons {
		if why != "" && !slices.Contains(v.doubts, why) {
			v.doubts = append(v.doubts, why)
			v.console.trouble(time.Now(), "%-12s  %s", "snapshot", why)
		}
	}
}

// handle shows one change and ends the view when it was the last one wanted.
func (v *view) handle(c change, end context.CancelCauseFunc) {
	v.tally.count(&c)
	if c.initial && v.flags.watchOnly {
		return
	}
	concerns, err := c.concerns(v.flags.only)
	if err != nil {
		end(&exitError{code: exitRuntime, err: fmt.Errorf("--only: %w", err)})
		return
	}
	if !concerns {
		return
	}
	if err := v.printer.print(&c); err != nil {
		end(&exitError{code: exitRuntime, err: fmt.Errorf("stdout: %w", err)})
		return
	}
	if v.tally.shown++; v.tally.shown == v.flags.count {
		end(errCounted)
	}
}

// outcome turns the reason of the end into the error of the command.
func (v *view) outcome(cause, failed, unsynced error) error {
	if f, ok := errors.AsType[*failure.Failure](failed); ok {
		return v.refusal(f)
	}
	switch e, ok := errors.AsType[*exitError](cause); {
	case ok:
		return e
	case failed != nil:
		return &exitError{code: exitRuntime, err: failed}
	case errors.Is(cause, errTimedOut):
		return v.flags.timedOut(unsynced)
	}
	return nil
}

// timedOut is the end by --timeout. Pending says what had not happened yet.
func (f *viewFlags) timedOut(pending error) error {
	err := fmt.Errorf("--timeout of %s is over", f.timeout)
	if pending != nil {
		err = fmt.Errorf("%w: %w", err, pending)
	}
	return &exitError{code: exitTimeout, err: err}
}

// judge decides whether to go on after a failure. Before the first sync
// somebody sits and waits: what trying again rarely helps with, or what keeps
// failing, is an answer. Afterwards nothing ends the view.
func judge(f *failure.Failure, synced bool) failure.Verdict {
	if synced {
		return failure.Retry
	}
	if f.Refused() || rejected(f.Err) || f.Attempts >= firstTries {
		return failure.Stop
	}
	return failure.Retry
}

// rejected reports whether the server found fault with the request itself,
// such as a field selector that it does not know.
func rejected(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// refusal is the error for a failure before the first sync.
func (v *view) refusal(f *failure.Failure) error {
	e := v.target.unavailable(fmt.Errorf("%s", failureText(f)), f.Err)
	_, undecodable := errors.AsType[*wire.Error](f.Err)
	_, unrecorded := errors.AsType[*recording.UnrecordedError](f.Err)
	switch {
	case rejected(f.Err):
		e.code, e.hint = exitUsage, "the server rejects the request: check --field-selector, --selector and --initial"
	case undecodable, unrecorded:
		e.code, e.hint = exitRuntime, ""
	}
	return e
}

// state shows a change of the reflector's state.
func (v *view) state(s reflector.Status) {
	name := func(text string) string { return fmt.Sprintf("%-12s  %s", s.State, text) }
	switch s.State {
	case reflector.BackingOff:
		v.console.trouble(s.Since, "%s", name(fmt.Sprintf("%s: %s", short(s.RetryAt.Sub(s.Since)), failureText(s.Failure))))
	case reflector.InitialWatch, reflector.Listing:
		text := v.target.String()
		if s.RV != "" {
			text = "again, the changes after rv " + s.RV + " are gone"
		}
		v.console.state(s.Since, "%s", name(text))
	case reflector.Gaining:
		v.console.state(s.Since, "%s", name(v.target.String()+", the slots that came"))
	case reflector.Resuming:
		v.console.state(s.Since, "%s", name(v.target.String()+", from a snapshot"))
	case reflector.Watching:
		v.console.state(s.Since, "%s", name("from rv "+s.RV))
	}
}
