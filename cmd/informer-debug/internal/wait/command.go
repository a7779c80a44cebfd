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

// waitFlags holds the flags specific to wait.
type waitFlags struct {
	until     string
	any       bool
	timeout   time.Duration
	condition condition // parsed until, set by check
}

// Command returns the wait command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	var look sight.Flags
	var flags waitFlags
	cmd := &cobra.Command{
		Use:   "wait TYPE[/NAME]... --for=CONDITION",
		Short: "Wait for a condition on a cache or its objects",
		Long: `wait checks a cache whenever it changes, and ends when all arguments meet CONDITION at the
same time or, with --any, one of them does. TYPE alone means the informer, or all of its objects
(at least one).

  synced                  a complete initial list is in the cache
  rv=N                    the cache is complete up to version N
  create                  the object is in the cache
  delete                  the object is not in the cache, or was recreated
  condition=NAME[=VALUE]  status.conditions has this VALUE (default True), not from an earlier
                          generation
  jsonpath={PATH}[=VALUE] PATH has this VALUE, or any value
With --attach also:
  lag<DURATION            the informer's queue and handlers are no further behind
  queue=N                 at most N keys of the controller or queue TYPE are queued or in progress

wait's own informer reflects the server's state a moment ago. A process's cache is the one that
its controllers see; wait checks it when the process reports an event, at most five times a
second, and requires debug.Options.Contents for conditions and paths.

` + sight.Help + `
` + playback.Help + ` wait exits with 4
if the recording ends before CONDITION is met. With --speed max, it may miss a condition that is
met only briefly.

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
	cmd.Flags().StringVar(&flags.until, "for", "", "condition to wait for")
	// This fails only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(conditions, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.Flags().Bool("all", true, "all objects of a TYPE without NAME; the default, accepted because kubectl requires it")
	_ = cmd.Flags().MarkHidden("all")
	cmd.Flags().BoolVar(&flags.any, "any", false, "stop when one object or informer meets the condition")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 30*time.Second, "how long to wait; 0 means forever")
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
		return exit.Usage("--timeout must not be negative, got %s", f.timeout)
	}
	if f.condition, err = parseCondition(f.until); err != nil {
		return err
	}
	if kind := f.condition.kind; look.To == "" && (kind == forLag || kind == forQueue) {
		if look.Replay.File != "" {
			return exit.Usage("--for=%s: a recording has no handlers or queues: use controllertest.Replay to replay it to your controller", f.until)
		}
		return exit.Usage("--for=%s: only a process has handlers and queues: select one with --attach", f.until)
	}
	return nil
}

// waiter waits until its subjects meet a condition.
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
			return exit.Usage("a named object is in one namespace: use -n instead of -A")
		}
		types = append(types, one.types)
	}
	if len(subjects) == 1 && subjects[0].name != "" && look.To == "" && look.Replay.File == "" { // no need to list the others
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

// lookAtLeast is how often to check even without a notification. Lagging handlers do not cause notifications,
// and neither do changes from before the process's event stream started.
const lookAtLeast = time.Second

// wait keeps checking until all subjects meet the condition at once or, with --any, one of them does. If ctx
// is done or a recording ends first, it returns an error describing what is missing.
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
			return &exit.Error{Code: exit.CodeFalse, Err: fmt.Errorf("the recording ended: %w", lacking(missing))}
		}
		if !said && time.Since(began) >= terminal.LateAfter {
			said = true
			w.console.State(time.Now(), "%-12s  %v", "waiting", lacking(missing))
		}
		select { // changes often arrive in bursts
		case <-time.After(calm(w.sight)):
		case <-ctx.Done():
		}
		if over, err = told.next(ctx, tick); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// askEvery is the minimum interval between requests to a process.
const askEvery = 200 * time.Millisecond

// calm returns the minimum interval between checks.
func calm(v *sight.Sight) time.Duration {
	if v.Flags.To != "" {
		return askEvery
	}
	return 20 * time.Millisecond
}

// informer returns the one informer that all subjects belong to. It returns "" if there are several or a
// subject is a queue.
func (w *waiter) informer() string {
	if w.condition.kind == forQueue || len(w.subjects) != 1 {
		return ""
	}
	return w.subjects[0].which.Informer
}

// lacking returns the error for an unmet condition.
func lacking(missing []string) error {
	if more := len(missing) - 3; more > 0 {
		missing = append(missing[:3:3], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s", strings.Join(missing, "; "))
}

// look returns the subjects that meet the condition, and descriptions of the others.
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

// stopped returns the error from any of our own informers that has stopped.
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
