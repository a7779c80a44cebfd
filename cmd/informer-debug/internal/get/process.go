package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
)

// process shows the controllers, queues or stacks if that is what types says and no informer has that name.
func (g *getter) process(ctx context.Context, types, name string) (is bool, err error) {
	show := map[string]func(context.Context, *debug.Status, string) (any, func(io.Writer) error, error){
		"controllers": g.controllers, "queue": g.queue, "queues": g.queue, "stack": g.stacks, "stacks": g.stacks,
	}[types]
	if show == nil || g.sight.Flags.To == "" {
		return false, nil
	}
	status, err := g.sight.Process.Status(ctx)
	if err != nil {
		return true, g.sight.Unanswered(ctx, err)
	}
	if len(sight.Named(status.Informers, types)) > 0 {
		return false, nil
	}
	if g.output.Form != "" && g.output.Form != output.JSON {
		return true, exit.Usage("-o %s is for objects: %s are available as a table or with -o json", g.output.Form, types)
	}
	what, text, err := show(ctx, status, name)
	switch {
	case err != nil:
		return true, err
	case g.output.Form == output.JSON:
		return true, exit.Unwritten(debug.WriteJSON(g.Out, what))
	}
	return true, exit.Unwritten(text(g.Out))
}

// partNames lists the values of TYPE that refer to components other than informers.
var partNames = []string{"controllers", "queue", "queues", "stack", "stacks"}

// orPart extends the error for a TYPE that the server does not serve. If TYPE is one of partNames, it
// adds a hint to use --attach.
func orPart(err error, types string) error {
	if e, ok := errors.AsType[*exit.Error](err); ok && slices.Contains(partNames, types) {
		e.Hint = fmt.Sprintf("to show a process's %s, select it with --attach", types)
	}
	return err
}

func (g *getter) controllers(_ context.Context, s *debug.Status, name string) (any, func(io.Writer) error, error) {
	var found []controller.Status
	t := g.table("CONTROLLER", "STATE", "BUSY", "WAITING", "OLDEST", "DELAYED", "PARKED", "DONE", "FAILED", "LAST FAILURE")
	for _, c := range s.Controllers {
		if name != "" && name != c.Name {
			continue
		}
		last := "-"
		if c.Failure != nil {
			last = c.Failure.Error()
		}
		found = append(found, c)
		t.Row(c.Name, c.State.String(), fmt.Sprintf("%d/%d", c.Active, c.Concurrency), strconv.Itoa(c.Queue.Waiting), duration(c.Queue.OldestWaiting), strconv.Itoa(c.Queue.Delayed),
			strconv.Itoa(c.Parked), strconv.FormatUint(c.Successes+c.Requeues+c.RequeuesAfter+c.Errors, 10), strconv.FormatUint(c.Errors, 10), last)
	}
	if len(found) == 0 && name != "" {
		return nil, nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no controller is named %q", name)}
	}
	return found, func(io.Writer) error { return t.Write() }, nil
}

// queue shows a queue's keys. The name may be omitted if there is only one controller.
func (g *getter) queue(ctx context.Context, s *debug.Status, name string) (any, func(io.Writer) error, error) {
	if name == "" {
		if len(s.Controllers) != 1 {
			return nil, nil, exit.Usage("specify the controller or queue: get queue NAME")
		}
		name = s.Controllers[0].Name
	}
	const most = 1000
	keys, err := g.sight.Process.Queue(ctx, name, most)
	if err != nil {
		return nil, nil, g.sight.Unanswered(ctx, err)
	}
	t := g.table("KEY", "STATE", "FOR", "DUE", "FAILURES", "WAITS FOR")
	for _, held := range []struct {
		state string
		keys  []debug.Key
	}{{"running", keys.Running}, {"waiting", keys.Waiting}, {"delayed", keys.Delayed}, {"parked", keys.Parked}} {
		for _, k := range held.keys {
			t.Row(k.Key, held.state, duration(k.For), duration(k.Due), strconv.Itoa(k.Requeues), terminal.OrDash(k.Write))
		}
	}
	return keys, func(io.Writer) error { return t.Write() }, nil
}

// stacks shows which functions the running handler and reconciler calls are currently in.
func (g *getter) stacks(ctx context.Context, status *debug.Status, name string) (any, func(io.Writer) error, error) {
	if names := callers(status); name != "" && !slices.Contains(names, name) && len(sight.Named(status.Informers, name)) == 0 {
		return nil, nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no controller, informer or handler is named %q; available: %s", name, terminal.OrDash(strings.Join(names, "; ")))}
	}
	all, err := g.sight.Process.Stacks(ctx, name)
	if err != nil {
		return nil, nil, g.sight.Unanswered(ctx, err)
	}
	return all.Stacks, func(w io.Writer) error {
		var b strings.Builder
		for _, s := range all.Stacks {
			whose := "controller " + s.Controller
			if s.Handler != "" {
				whose = "handler " + s.Handler + " of " + s.Informer
			}
			fmt.Fprintf(&b, "%s, goroutines: %d\n", terminal.OneLine(whose), s.Count)
			for _, frame := range s.Frames {
				fmt.Fprintf(&b, "  %s\n", terminal.OneLine(frame))
			}
		}
		if len(all.Stacks) == 0 {
			g.console.State(time.Now(), "%-12s  no handler or reconciler calls are in progress", "nothing")
		}
		_, err := io.WriteString(w, b.String())
		return err
	}, nil
}

// callers returns the names of all controllers, informers and handlers.
func callers(s *debug.Status) (names []string) {
	for _, c := range s.Controllers {
		names = append(names, c.Name)
	}
	for _, i := range s.Informers {
		names = append(names, i.Reflector.Resource)
		for _, h := range i.Handlers {
			names = append(names, h.Name)
		}
	}
	return names
}

func duration(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return terminal.Duration(d)
}
