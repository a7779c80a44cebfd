package churn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// churnFlags holds the flags of churn.
type churnFlags struct {
	sight.Flags
	period time.Duration
	limit  int
	keep   []string
	output output.Choice
}

// Command returns the churn command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	flags := churnFlags{output: output.Choice{Words: []string{"json", "jsonl"}}}
	cmd := &cobra.Command{
		Use:   "churn TYPE[,TYPE...] | --attach PROCESS",
		Short: "Report what changes, who changes it, and which events you could filter out",
		Long: `churn watches for the duration of --for and reports which objects and fields changed, which
managers changed them, and how many changes a predicate would drop. Ctrl-C stops it early and
prints the results so far.

A change is attributed to the last writer among the managers that own the field according to
metadata.managedFields, or to "unknown" if there is none. Field names are shown, but never
their values.

Events that do not change the object are counted separately: repeats of the same version, and
writes that changed only metadata.managedFields and the resource version. Resyncs are generated
inside a process, not by the server, so they do not occur here.

DECODE is measured: the object in an event is encoded as JSON and decoded again in this process
into an unstructured object, both completely and with each Keep, three times each, and the
fastest run counts. Decoding typed objects from protobuf is faster. All of the first ` + fmt.Sprint(measureAll) + ` events are measured, then
every second one for the same number of measurements, then every fourth, and so on. The sums are
extrapolated to all events. A predicate saves the work caused by an event, but not its decoding:
its DECODE is the time spent on events it would drop. Keep saves decoding, but no events: its
EVENTS are those that change no kept field.

churn holds at most ` + fmt.Sprint(mostStates) + ` objects and ` + terminal.Bytes(mostStateBytes) + ` to compare with, packed. It counts the first
` + fmt.Sprint(mostFields) + ` fields and ` + fmt.Sprint(mostKeys) + ` objects individually, and the others together.

` + playback.Help + ` churn counts
from the first list to the end, at full speed.

TYPE is as for get. With --attach, TYPE is the name of an informer and optional, and churn shows
the process's busiest keys within --for, as far back as its flight recorder goes, but no fields.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug churn pods,leases.coordination.k8s.io -A
  informer-debug churn nodes --for 5m --keep spec.podCIDR,status.conditions -o json
  informer-debug churn --replay bug.recording
  informer-debug churn --attach pod/janitor-0 -n ops`,
		Args: exit.Args(0, 1),
	}
	flags.Add(cmd)
	flags.Replay.Add(cmd, "")
	cmd.Flags().DurationVar(&flags.period, "for", time.Minute, "how long to watch")
	cmd.Flags().IntVar(&flags.limit, "limit", 10, "number of objects, fields and managers to show; 0 shows all that were counted")
	cmd.Flags().StringArrayVar(&flags.keep, "keep", nil, "fields an informer would keep, such as spec.nodeName,status.phase; may be repeated")
	flags.output.Add(cmd, "output format (default text)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.check(); err != nil {
			return err
		}
		types := strings.Join(args, "")
		switch {
		case flags.To != "":
			return flags.attached(cmd.Context(), s, types)
		case flags.Replay.File != "":
			return flags.replayed(cmd.Context(), s, types)
		}
		return flags.run(cmd.Context(), s, types)
	}
	return cmd
}

func (f *churnFlags) check() error {
	if err := f.Flags.Check(); err != nil {
		return err
	}
	switch {
	case f.period <= 0:
		return exit.Usage("--for must be positive, got %s", f.period)
	case f.limit < 0:
		return exit.Usage("--limit must not be negative, got %d", f.limit)
	case slices.Contains(f.keep, ""):
		return exit.Usage("--keep is empty: specify fields, such as spec.nodeName")
	case f.To != "" && (f.Selector != "" || len(f.keep) > 0):
		return exit.Usage("--selector and --keep cannot be used with --attach: the process reports keys, not objects")
	case f.Replay.File != "" && f.Selector != "":
		return exit.Usage("--selector cannot be used with --replay: the selectors of the recorded informers apply")
	}
	return nil
}

// run watches all types at once.
func (f *churnFlags) run(ctx context.Context, s terminal.Streams, types string) error {
	console := terminal.NewConsole(s, false)
	_, targets, err := f.Targets(ctx, s, types, console)
	if err != nil {
		return exit.Unfinished(ctx, 0, err)
	}
	defer targets[0].Client.CloseIdleConnections()
	return f.watch(ctx, s, targets, console)
}

// churner is a [churning] with the function that feeds it until its context is done.
type churner struct {
	*churning
	run func(context.Context) error
}

func (f *churnFlags) watch(ctx context.Context, s terminal.Streams, targets []cluster.Target, console *terminal.Console) error {
	var all []churner
	for _, at := range targets {
		c, err := newChurning(at, f.keep)
		if err != nil {
			return err
		}
		opts := reflector.Options{
			LabelSelector: f.Labels, FieldSelector: f.Fields, Initial: reflector.List, PageSize: churnPage,
			OnState: func(s reflector.Status) { at.ShowState(console, s) },
			OnError: func(_ context.Context, e *failure.Failure) failure.Verdict { return cluster.Judge(e, c.isSynced()) },
		}
		all = append(all, churner{c, func(ctx context.Context) error { return c.passPacked().run(ctx, opts, at.Refusal) }})
	}
	return f.churn(ctx, s, all, func(ctx context.Context, failed <-chan error) (time.Duration, error) {
		for _, c := range all {
			select {
			case <-c.synced:
			case err := <-failed:
				return 0, err
			case <-ctx.Done():
				return 0, &exit.Error{Code: exit.CodeRuntime, Err: exit.ErrInterrupted}
			}
		}
		began := time.Now()
		select {
		case <-time.After(f.period):
		case <-ctx.Done():
		}
		return time.Since(began), nil
	})
}

// churn runs all churners until wait returns, and then prints their reports. They cover the duration returned
// by wait.
func (f *churnFlags) churn(ctx context.Context, s terminal.Streams, all []churner, wait func(ctx context.Context, failed <-chan error) (time.Duration, error)) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watches sync.WaitGroup
	defer watches.Wait()
	defer stop()
	failed := make(chan error, len(all))
	for _, c := range all {
		watches.Go(func() {
			if err := c.run(running); err != nil {
				failed <- err
			}
		})
	}
	took, err := wait(ctx, failed)
	if err != nil {
		return err
	}
	stop()
	watches.Wait()
	for n, c := range all {
		if err := f.write(s.Out, c.report(took, f.limit), n > 0); err != nil {
			return exit.Unwritten(err)
		}
	}
	return nil
}

// busyKeys contains the counts that a process can report.
type busyKeys struct {
	Within time.Duration
	Keys   []flight.Busy
	Fields string // why there are no fields
}

// attached prints a process's busiest keys.
func (f *churnFlags) attached(ctx context.Context, s terminal.Streams, types string) error {
	process, called, err := f.Attach(s)
	if err != nil {
		return err
	}
	const all = 1000
	busy, err := process.Busiest(ctx, max(1, int(f.period.Seconds())), all)
	if err != nil {
		return f.Unanswered(ctx, called, err)
	}
	if err := f.named(ctx, process, called, types); err != nil {
		return err
	}
	told := busyKeys{Within: busy.Within, Fields: "a process reports keys and times, but no fields: " +
		"use informer-debug churn TYPE, without --attach, to watch the cluster directly"}
	names := strings.Split(types, ",")
	for _, b := range busy.Keys {
		named := func(name string) bool {
			return flight.Names(name, b.Name) || flight.Names(name, b.Informer)
		}
		if types == "" || types == b.Name || slices.ContainsFunc(names, named) {
			told.Keys = append(told.Keys, b)
		}
	}
	if f.limit > 0 && len(told.Keys) > f.limit {
		told.Keys = told.Keys[:f.limit]
	}
	return exit.Unwritten(f.writeBusy(s, &told))
}

// named returns an error if nothing in the process matches a TYPE, since an empty result would be misleading.
func (f *churnFlags) named(ctx context.Context, process *debug.Client, called, types string) error {
	if types == "" {
		return nil
	}
	status, err := process.Status(ctx)
	if err != nil {
		return f.Unanswered(ctx, called, err)
	}
	var others []string
	for _, c := range status.Controllers {
		others = append(others, c.Name)
	}
	for _, q := range status.Queues {
		others = append(others, q.Name)
	}
	if slices.Contains(others, types) {
		return nil
	}
	_, err = sight.Choose(status.Informers, types, true)
	return err
}

func (f *churnFlags) writeBusy(s terminal.Streams, told *busyKeys) error {
	switch f.output.Value {
	case "json":
		return debug.WriteJSON(s.Out, told)
	case "jsonl":
		return debug.WriteJSONLine(s.Out, told)
	}
	terminal.NewConsole(s, false).Trouble(time.Now(), "%s", told.Fields)
	t := terminal.NewText()
	t.Line("EVENTS", "OF", "KEY")
	for _, b := range told.Keys {
		t.Line(fmt.Sprint(b.Count), string(b.Role)+" "+b.Name, object.FormatKey(b.Key))
	}
	if len(told.Keys) == 0 {
		return t.Write(s.Out, fmt.Sprintf("nothing happened to any key within %s, as far as the process remembers", told.Within))
	}
	return t.Write(s.Out, fmt.Sprintf("busiest keys within %s, as far as the process remembers", told.Within))
}
