package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/demo"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// errCounted ends a view after --count changes.
var errCounted = errors.New("--count was reached")

// view shows one informer until the command ends.
type view struct {
	*Job
	target  cluster.Target
	printer printer
	tally   tally
	doubts  []string // snapshot warnings already printed
}

// show runs an informer with a single handler and shows its events.
func show[T object.Object](ctx context.Context, v *view) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var informer *sharedinformer.Informer[T]
	informer = sharedinformer.New[T](cluster.Source[T](v.target), sharedinformer.Options{
		Snapshot:      v.Flags.snapshots(),
		LabelSelector: v.Flags.labels,
		FieldSelector: v.Flags.fields,
		Initial:       v.Flags.initialMode(),
		Timing:        v.Timing,
		Flight:        v.Company.Flight(),
		OnState:       func(s reflector.Status) { v.target.ShowState(v.Console, s) },
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			if v.recording != nil {
				return playback.Judge(f)
			}
			return cluster.Judge(f, informer.HasSynced())
		},
		SyncPatience: -1,
	})
	v.printer = newPrinter(v.Streams, v.Flags, v.target.Mapping.Resource, func() (w widths) {
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
	// Keep the informer running until we have found out what it is waiting for.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	waits.Go(func() {
		if unsynced = informer.WaitForSync(ctx); unsynced == nil {
			v.Console.State(time.Now(), "%-12s  %d objects in %s", "synced", informer.Cache().Len(), terminal.Duration(time.Since(began)))
			v.noteSnapshot(informer.Status().Snapshot)
			if informer.Cache().Len() == 0 {
				v.target.DoubtNamespace(ctx, v.Console)
			}
		}
		<-ctx.Done()
		stop()
	})
	if v.recording != nil {
		waits.Go(func() { end(v.played(ctx, informer.Status)) })
	}
	var alone error // error from the company
	if v.Company != nil {
		wait, err := demo.Accompany(ctx, v.Company, informer)
		if err != nil {
			end(&exit.Error{Code: exit.CodeRuntime, Err: err})
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

// noteSnapshot reports each problem with --snapshot once.
func (v *view) noteSnapshot(s *sharedinformer.SnapshotStatus) {
	if s == nil {
		return
	}
	reasons := []string{s.Off, s.Unused}
	if s.Failure != nil {
		reasons = append(reasons, cluster.FailureText(s.Failure))
	}
	for _, why := range reasons {
		if why != "" && !slices.Contains(v.doubts, why) {
			v.doubts = append(v.doubts, why)
			v.Console.Trouble(time.Now(), "%-12s  %s", "snapshot", why)
		}
	}
}

// handle shows one change, and ends the view once --count is reached.
func (v *view) handle(c change, end context.CancelCauseFunc) {
	v.tally.count(&c)
	c.secret = confidential.Named(v.target.Mapping.Resource.Resource)
	if c.initial && v.Flags.watchOnly {
		return
	}
	concerns, err := c.concerns(v.Flags.only)
	if err != nil {
		end(&exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("--only: %w", err)})
		return
	}
	if !concerns {
		return
	}
	if err := v.printer.print(&c); err != nil {
		end(&exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("stdout: %w", err)})
		return
	}
	if v.tally.shown++; v.tally.shown == v.Flags.count {
		end(errCounted)
	}
}

// outcome turns the reason the view ended into the command's error.
func (v *view) outcome(cause, failed, unsynced error) error {
	if f, ok := errors.AsType[*failure.Failure](failed); ok {
		return v.target.Refusal(f)
	}
	switch e, ok := errors.AsType[*exit.Error](cause); {
	case ok:
		return e
	case failed != nil:
		return &exit.Error{Code: exit.CodeRuntime, Err: failed}
	case errors.Is(cause, exit.ErrTimedOut):
		return v.Flags.timedOut(unsynced)
	}
	return nil
}

// timedOut returns the error for --timeout. pending describes the state at that time, if known.
func (f *Flags) timedOut(pending error) error {
	err := fmt.Errorf("--timeout of %s expired", f.timeout)
	if pending != nil {
		err = fmt.Errorf("%w: %w", err, pending)
	}
	return &exit.Error{Code: exit.CodeTimeout, Err: err}
}
