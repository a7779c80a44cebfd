package why

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// whyFlags are those of why alone.
type whyFlags struct {
	controller string
	entries    int
	output     output.Choice
}

// whyQuestion is what a process is asked.
type whyQuestion struct {
	process  *debug.Client
	look     *attach.Flags
	flags    *whyFlags
	informer string // empty for any
	key      object.Key
}

// Command returns the verb why, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	var look attach.Flags
	flags := whyFlags{output: output.Choice{Words: []string{"json"}}}
	cmd := &cobra.Command{
		Use:   "why [TYPE/]NAME | TYPE NAME",
		Short: "Say why an object has not been reconciled, or so late",
		Long: `why asks a running process about one object: is the change still on the way, does it
wait for a handler or a worker, is it being reconciled, did it fail, was it left out by a
predicate, is it in no cache, does another replica lead? The reason that holds it up comes
first, and then what the flight recorder remembers of the object.

Where replicas share their work it names the one that has the object, or from which to which
it is being handed over. If the process that is asked does not have the object, the cluster of your
kubeconfig is asked for its UID.

TYPE is the name of an informer as the process calls it, such as "pods in namespace shop", or
the resource alone: pods, pod or po. A NAME alone means any.

` + attach.Help + `

` + exit.Help,
		Example: `  informer-debug why pods/web-1 -n shop --attach http://localhost:6060
  informer-debug why web-1 -n shop --controller janitor --attach pod/janitor-0 -o json`,
		Args: cobra.RangeArgs(1, 2),
	}
	look.Add(cmd)
	playback.Refuse(cmd, "a recording has no handlers and no controllers; informer-debug describe --replay %s shows what became of an object, and controllertest.Replay plays it to your controller")
	completer := &sight.Completer{Attach: &look, Namespace: &look.Namespace, Slash: true, Second: true}
	completer.Register(cmd)
	cmd.Flags().StringVar(&flags.controller, "controller", "", "name of the controller that is meant (default all)")
	_ = cmd.RegisterFlagCompletionFunc("controller", completer.Queues) // it fails only for a flag that does not exist
	cmd.Flags().IntVar(&flags.entries, "last", 20, "how many of the last events to show; 0 is none")
	cmd.Flags().VarP(&flags.output, "output", "o", "output format (default text)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := look.Check(); err != nil {
			return err
		}
		return runWhy(cmd.Context(), s, &look, &flags, args)
	}
	return cmd
}

func runWhy(ctx context.Context, s terminal.Streams, look *attach.Flags, flags *whyFlags, args []string) error {
	typ, name, named := attach.CutName(args[0])
	twice := named && len(args) == 2
	switch {
	case len(args) == 2: // as kubectl has it, too
		name = args[1]
	case !named:
		typ, name = "", args[0]
	}
	switch {
	case twice || name == "" || strings.Contains(name, "/"):
		return exit.Usage("%q: want TYPE/NAME, TYPE NAME or NAME", strings.Join(args, " "))
	case flags.entries < 0:
		return exit.Usage("--last is %d: want 0 or more", flags.entries)
	}
	process, called, err := look.Attach(s)
	if err != nil {
		return err
	}
	w := whyQuestion{process, look, flags, typ, object.Key{Namespace: look.Namespace, Name: name}}
	why, err := process.Why(ctx, typ, flags.controller, w.key)
	if err == nil {
		why, err = w.whose(ctx, s, why)
	}
	if err != nil {
		return look.Unanswered(ctx, called, err)
	}
	if err := writeWhy(s.Out, why, flags); err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	if look.Namespace == "" && slices.ContainsFunc(why.Reasons, func(r debug.Reason) bool { return r.Cause == debug.NotCached }) && !w.withoutNamespace(ctx) {
		terminal.NewConsole(s, false).Trouble(time.Now(), "%-12s  none was given: an object that is in one is found with -n", "namespace")
	}
	return nil
}

// withoutNamespace reports whether the objects that are meant are known to be in none.
func (w *whyQuestion) withoutNamespace(ctx context.Context) bool {
	one, err := w.process.Objects(ctx, debug.Which{Informer: w.informer}, debug.Page{Limit: 1})
	return err == nil && len(one.Heads) > 0 && one.Heads[0].Namespace == ""
}

func writeWhy(w io.Writer, why *debug.Why, flags *whyFlags) error {
	if flags.output.Value == "json" {
		return debug.WriteJSON(w, why)
	}
	var b strings.Builder
	for _, r := range why.Reasons {
		fmt.Fprintf(&b, "%s\n", terminal.OneLine(r.Text))
	}
	last := why.Entries[max(0, len(why.Entries)-flags.entries):]
	if len(last) > 0 {
		b.WriteString("\n")
	}
	for n := range last {
		attach.WriteEntry(&b, &last[n])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
