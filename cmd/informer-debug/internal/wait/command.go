package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// waitFlags are those of wait alone.
type waitFlags struct {
	until     string
	any       bool
	timeout   time.Duration
	condition condition // of until, after check
}

// Command returns the verb wait, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	var look sight.Flags
	var flags waitFlags
	cmd := &cobra.Command{
		Use:   "wait TYPE[/NAME]... --for=CONDITION",
		Short: "Wait until something is so of a cache, or of objects in it",
		Long: `wait looks at a cache when it changes, and ends when CONDITION is true of all that is
named at once, or of one of them with --any. TYPE alone means the informer, or all of its
objects, of which there has to be one.

  synced                  a whole initial list is in the cache
  rv=N                    the cache is complete up to version N
  create                  the object is in the cache
  delete                  the object is not in the cache, or another one of that name
  condition=NAME[=VALUE]  status.conditions has it so, with True for no VALUE, and not of
                          an earlier generation
  jsonpath={PATH}[=VALUE] a value at PATH is VALUE, or there is any
With --attach, too:
  lag<DURATION            queue and handlers of the informer are not further behind
  queue=N                 at most N keys of the controller or queue TYPE wait or are worked on

The cache of an informer of one's own is as the server was a moment ago. That of a process is
what its controllers see, and is looked at when the process tells of an event, five times a
second at most; conditions and paths need debug.Options.Contents there.

` + sight.Help + `
` + playback.Help + ` wait ends with 4
where the recording is over and CONDITION is not true. With --speed max, what was so for a moment
may be overlooked.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug wait pods/web-1 pods/web-2 -n shop --for=condition=Ready
  informer-debug wait pods -l app=web -n shop --for=jsonpath='{.status.phase}'=Running --timeout=5m
  informer-debug wait pods/web-1 -n shop --for=delete
  informer-debug wait pods --for=rv=1042 --attach http://localhost:6060
  informer-debug wait pods/web-1 -n shop --for=delete --replay bug.recording
  informer-debug wait keeper --for=queue=0 --attach http://localhost:6060`,
		Args: exit.Args(1, -1),
	}
	look.Add(cmd)
	look.Replay.Add(cmd, "max")
	completer := &sight.Completer{Attach: &look.Flags, Replay: &look.Replay, Namespace: &look.Namespace, Slash: true, More: true}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if strings.HasPrefix(flags.until, forQueue) {
			return completer.Queues(cmd, args, text)
		}
		return completer.Arguments(cmd, args, text)
	}
	cmd.Flags().StringVar(&flags.until, "for", "", "what to wait for")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(conditions, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.Flags().Bool("all", true, "all objects of a TYPE without NAME, as without this flag; kubectl wants it said")
	_ = cmd.Flags().MarkHidden("all")
	cmd.Flags().BoolVar(&flags.any, "any", false, "one of what is named is enough")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 30*time.Second, "how long to wait; 0 is no end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(look.Check(), flags.check(&look)); err != nil {
			return err
		}
		ctx, cancel := exit.Limited(cmd.Context(), flags.timeout)
		defer cancel()
		return exit.Unfinished(ctx, flags.timeout, flags.run(ctx, s, &look, args))
	}
	return cmd
}

func (f *waitFlags) check(look *sight.Flags) (err error) {
	switch {
	case f.until == "":
		return exit.Usage("--for is missing: %s", wantCondition)
	case f.timeout < 0:
		return exit.Usage("--timeout is %s: want 0 or more", f.timeout)
	}
	if f.condition, err = parseCondition(f.until); err != nil {
		return err
	}
	if kind := f.condition.kind; look.To == "" && (kind == forLag || kind == forQueue) {
		if look.Replay.File != "" {
			return exit.Usage("--for=%s: a recording has no handlers and no queues: controllertest.Replay plays it to your controller", f.until)
		}
		return exit.Usage("--for=%s: this is about the handlers and queues of a process: say which with --attach", f.until)
	}
	return nil
}

// waiter waits for subjects.
type waiter struct {
	*waitFlags
	sight    *sight.Sight
	subjects []subject
	console  *terminal.Console
}

func (f *waitFlags) run(ctx context.Context, s terminal.Streams, look *sight.Flags, args []string) error {
	subjects, err := f.subjectsOf(args)
	if err != nil {
		return err
	}
	var types []string
	for _, one := range subjects {
		if one.name != "" && look.AllNamespaces {
			return exit.Usage("an object by its name is in one namespace: leave out -A, or say -n")
		}
		types = append(types, one.types)
	}
	if len(subjects) == 1 && subjects[0].name != "" && look.To == "" && look.Replay.File == "" { // the others need not be listed
		look.OnlyNamed(subjects[0].name)
	}
	v, err := look.Open(ctx, s, strings.Join(types, ","), terminal.NewConsole(s, false))
	if err != nil {
		return err
	}
	defer v.Close()
	w := &waiter{waitFlags: f, sight: v, console: terminal.NewConsole(s, false)}
	if w.subjects, err = nameAll(ctx, v, subjects); err != nil {
		return err
	}
	return w.wait(ctx, s.Out)
}

// lookAtLeast is how often to look where nobody tells of a change: of a handler that lags, or of
// what happened before the events of a process began.
const lookAtLeast = time.Second

// wait looks until the condition is true of all subjects at once, or of one with --any. Before
// it returns an error of ctx, or one that a recording is over, it says what is missing.
func (w *waiter) wait(ctx context.Context, stdout io.Writer) error {
	tick := time.NewTicker(lookAtLeast)
	defer tick.Stop()
	told := listen(ctx, w.sight, w.informer())
	defer told.close()
	var missing []string
	began, said := time.Now(), false
	for over := false; ; {
		met, lacks, err := w.look(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() == nil {
			if missing = lacks; len(lacks) == 0 || w.any && len(met) > 0 {
				var b strings.Builder
				for _, text := range met {
					fmt.Fprintf(&b, "%s\n", terminal.OneLine(text))
				}
				_, err := io.WriteString(stdout, b.String())
				return exit.Unwritten(err)
			}
		}
		switch {
		case ctx.Err() != nil && len(missing) == 0:
			return w.sight.Silent()
		case ctx.Err() != nil:
			return lacking(missing)
		case over:
			return &exit.Error{Code: exit.CodeFalse, Err: fmt.Errorf("the recording is over: %w", lacking(missing))}
		}
		if !said && time.Since(began) >= terminal.LateAfter {
			said = true
			w.console.State(time.Now(), "%-12s  %v", "waiting", lacking(missing))
		}
		select { // changes come many at once
		case <-time.After(calm(w.sight)):
		case <-ctx.Done():
		}
		if over, err = told.next(ctx, tick); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// askEvery is how often a process is asked whether something has changed.
const askEvery = 200 * time.Millisecond

// calm is how long to leave a cache alone between two looks.
func calm(v *sight.Sight) time.Duration {
	if v.Flags.To != "" {
		return askEvery
	}
	return 20 * time.Millisecond
}

// informer is the one that all subjects are of; empty where there are several, or where it is
// about a queue.
func (w *waiter) informer() string {
	if w.condition.kind == forQueue || len(w.subjects) != 1 {
		return ""
	}
	return w.subjects[0].which.Informer
}

// lacking is the error of a condition that is not true.
func lacking(missing []string) error {
	if more := len(missing) - 3; more > 0 {
		missing = append(missing[:3:3], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s", strings.Join(missing, "; "))
}

// look says of which subjects the condition is true, and of the others how it is.
func (w *waiter) look(ctx context.Context) (met, lacks []string, err error) {
	if err := w.stopped(); err != nil {
		return nil, nil, err
	}
	status, err := w.sight.Process.Status(ctx)
	if err != nil {
		return nil, nil, w.sight.Unanswered(ctx, err)
	}
	for n := range w.subjects {
		s := &w.subjects[n]
		ok, text, err := w.is(ctx, s, status)
		if err != nil {
			return nil, nil, err
		}
		if text = s.called + ": " + text; ok {
			met = append(met, text)
		} else {
			lacks = append(lacks, text)
		}
	}
	return met, lacks, nil
}

// stopped is why an informer of one's own has ended.
func (w *waiter) stopped() error {
	for _, o := range w.sight.Informers {
		select {
		case err := <-o.Failed:
			o.Failed <- err
			return err
		default:
		}
	}
	return nil
}
