package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// follower shows a running process's events.
type follower struct {
	terminal.Streams
	look  *attach.Flags
	flags *Flags
	typ   string
	key   object.Key
}

// newFollower checks the flags of watch --attach.
func newFollower(s terminal.Streams, look *attach.Flags, flags *Flags, arg string) (*follower, error) {
	f := &follower{Streams: s, look: look, flags: flags, key: object.Key{Namespace: flags.Namespace}}
	f.typ, f.key.Name, _ = attach.CutName(arg)
	out := flags.output.Value
	switch {
	case f.typ == "" || strings.Contains(f.key.Name, "/"):
		return nil, exit.Usage("%q: want TYPE or TYPE/NAME", arg)
	case flags.selector != "" || flags.fieldSelector != "" || flags.metadataOnly:
		return nil, exit.Usage("--selector, --field-selector and --metadata-only cannot be used with --attach: the settings of the process's informer apply")
	case flags.diff || flags.stage || len(flags.only) > 0:
		return nil, exit.Usage("--only, --diff and --stage cannot be used with --attach: the process reports keys, not objects, and each event includes its times")
	case out != "" && out != "json" && out != "jsonl":
		return nil, exit.Usage("-o %s cannot be used with --attach: the process reports keys, not objects", out)
	}
	return f, nil
}

// run prints events until ctx is done, --count is reached, or the process exits.
func (f *follower) run(ctx context.Context) error {
	if f.flags.timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, f.flags.timeout, exit.ErrTimedOut)
		defer cancel()
		ctx = timed
	}
	process, called, err := f.look.Attach(f.Streams)
	if err != nil {
		return err
	}
	if err := f.begin(ctx, process, called); err != nil {
		return exit.UnlessLeft(err)
	}
	shown := 0
	for event, err := range process.Events(ctx, f.typ, f.key) {
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return f.look.Unanswered(ctx, called, err)
		}
		if err := f.print(&event); err != nil {
			return &exit.Error{Code: exit.CodeRuntime, Err: err}
		}
		if event.Lost > 0 {
			continue // not a change
		}
		if shown++; shown == f.flags.count {
			return nil
		}
	}
	switch {
	case errors.Is(context.Cause(ctx), exit.ErrTimedOut) && f.look.Unheard() != nil:
		return f.flags.timedOut(f.look.Unheard())
	case errors.Is(context.Cause(ctx), exit.ErrTimedOut):
		return &exit.Error{Code: exit.CodeTimeout, Err: fmt.Errorf("%s: %d events in %s", called, shown, f.flags.timeout)}
	case ctx.Err() != nil:
		return nil
	}
	return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s: %w", called, attach.ErrEnded)}
}

// begin prints which events will be shown.
func (f *follower) begin(ctx context.Context, process *debug.Client, called string) error {
	status, err := process.Status(ctx)
	if err != nil {
		return f.look.Unanswered(ctx, called, err)
	}
	var names []string
	for n := range status.Informers {
		names = append(names, status.Informers[n].Reflector.Resource)
	}
	for _, t := range status.Recorder.Tracks {
		if t.Role == flight.Informer {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	c := terminal.NewConsole(f.Streams, false)
	if !slices.ContainsFunc(names, func(name string) bool { return flight.Names(f.typ, name) }) {
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no informer is named %q; available: %s", f.typ, terminal.OrDash(strings.Join(names, "; ")))}
	}
	c.State(time.Now(), "%-12s  to %s, which reports events from now on", "attached", called)
	return f.doubtNamespace(ctx, process, called, c)
}

// doubtNamespace warns if the objects are namespaced but the key has no namespace, because no event would
// ever match.
func (f *follower) doubtNamespace(ctx context.Context, process *debug.Client, called string, c *terminal.Console) error {
	if f.key.Name == "" || f.key.Namespace != "" {
		return nil
	}
	one, err := process.Objects(ctx, debug.Which{Informer: f.typ}, debug.Page{Limit: 1})
	if _, refused := errors.AsType[*debug.RefusedError](err); refused { // several informers match, or currently none
		return nil
	}
	if err != nil {
		return f.look.Unanswered(ctx, called, err)
	}
	if len(one.Heads) > 0 && one.Heads[0].Namespace != "" {
		c.Trouble(time.Now(), "%-12s  none was given: use -n to find an object in a namespace", "namespace")
	}
	return nil
}

func (f *follower) print(e *debug.Event) error {
	switch {
	case f.flags.output.Value == "json":
		return debug.WriteJSON(f.Out, e)
	case f.flags.output.Value == "jsonl":
		return debug.WriteJSONLine(f.Out, e)
	case e.Lost > 0:
		_, err := fmt.Fprintf(f.Err, "! %s  %d events are missing here\n", time.Now().Format(terminal.Clock), e.Lost)
		return err
	}
	var b strings.Builder
	attach.WriteEntry(&b, &e.Entry)
	_, err := fmt.Fprint(f.Out, b.String())
	return err
}
