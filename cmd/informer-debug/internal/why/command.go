package why

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// inquiry is one run of the why command.
type inquiry struct {
	subject
	look       sight.Flags
	controller string
	last       int
	output     output.Choice

	streams terminal.Streams
	console *terminal.Console
	answer  answer
}

// answer contains everything known about the object, as printed by -o json.
type answer struct {
	Key         object.Key
	Reasons     []debug.Reason  `json:",omitzero"` // of a process
	Unowned     []debug.Sharing `json:",omitzero"`
	Comparisons []comparison    `json:",omitzero"`
	NotCompared string          `json:",omitzero"` // reason there is no comparison
	Entries     []flight.Entry  `json:",omitzero"`
}

// Command returns the why command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	q := inquiry{streams: s, console: terminal.NewConsole(s, false), output: output.Choice{Words: []string{"json"}}}
	cmd := &cobra.Command{
		Use:   "why [TYPE/]NAME | TYPE NAME | NAMESPACE/NAME",
		Short: "Explain why an object has not been reconciled, and how cache and server differ",
		Long: `why queries a running process about one object: is a change still on its way, or waiting
for a handler or a worker? Is the object being reconciled? Did that fail, or did a predicate drop
the change? Is the object in no cache, or is another replica the leader or owner? The most likely
reason for the delay comes first. Then why compares the cache with the server, field by field, and
shows the cluster's last Events for the object and its history in the flight recorder.

TYPE is the name of an informer as listed by get, such as "pods in namespace shop", or just
the resource: pods, pod or po. A NAME alone means any TYPE. Without -n, why looks in all
namespaces in the caches, and then in the kubeconfig's namespace.

The kubeconfig selects the cluster to compare with; without one, why reports that it did not
compare. For a process at a URL, --token and the TLS flags apply only to the process. Fields are
compared if the process shows contents, but never for Secrets. Fields deliberately omitted from a
cache are shown as differences. Showing Events requires the verb list on events.

Without --attach, why runs its own informer on the cluster of your kubeconfig, and TYPE is
required. With --replay FILE, it shows the object's history in a recording.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug why pods/web-1 -n shop --attach http://localhost:6060
  informer-debug why shop/web-1 --controller janitor --attach pod/janitor-0 -o json
  informer-debug why pods/web-1 -n shop
  informer-debug why pods/web-1 -n shop --replay bug.recording`,
		Args: exit.Args(1, 2),
	}
	q.look.Flags.Add(cmd)
	q.look.Replay.Add(cmd, "")
	completer := &sight.Completer{Attach: &q.look.Flags, Replay: &q.look.Replay, Namespace: &q.look.Namespace, Slash: true, Second: true}
	completer.Register(cmd)
	cmd.Flags().StringVar(&q.controller, "controller", "", "with --attach: name of the controller (default all)")
	_ = cmd.RegisterFlagCompletionFunc("controller", completer.Queues) // fails only if the flag does not exist
	cmd.Flags().IntVar(&q.last, "last", 20, "number of recent events to show; 0 shows none")
	q.output.Add(cmd, "output format (default text)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := q.look.Check(); err != nil {
			return err
		}
		if q.subject, err = subjectOf(args, q.look.Namespace); err != nil {
			return err
		}
		switch {
		case q.last < 0:
			return exit.Usage("--last must not be negative, got %d", q.last)
		case q.look.To == "" && q.controller != "":
			return exit.Usage("--controller requires a process: select one with --attach")
		case q.look.To == "" && q.types == "":
			return exit.Usage("%q: without --attach, use TYPE/NAME or TYPE NAME", strings.Join(args, " "))
		case q.look.To == "":
			return q.looking(cmd.Context())
		}
		return q.attached(cmd.Context())
	}
	return cmd
}

// looking answers from our own informers, on a cluster or a recording.
func (q *inquiry) looking(ctx context.Context) error {
	if q.look.Namespace = q.key.Namespace; q.look.Replay.File == "" {
		q.look.OnlyNamed(q.key.Name)
	}
	v, err := q.look.Open(ctx, q.streams, q.types, q.console)
	if err != nil {
		return err
	}
	defer v.Close()
	if err := v.Wait(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: exit.ErrInterrupted}
	}
	if v.Played != nil {
		return q.recorded(ctx, v)
	}
	if len(v.Informers) != 1 {
		return exit.Usage("%q matches %d types: specify one", q.types, len(v.Informers))
	}
	status, err := v.Process.Status(ctx)
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	at, err := v.Server(q.streams)
	if err != nil {
		return err
	}
	q.key.Namespace = v.Informers[0].Target.Namespace
	q.answer.Key = q.key
	c := comparing{inquiry: q, sight: v, at: at, status: status}
	if err := c.informer(ctx, &status.Informers[0]); err != nil {
		return err
	}
	if q.answer.Comparisons[0].absent() {
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s is neither in the cache nor on the server", &q.subject)}
	}
	return q.write((*answer).writeComparisons)
}

// lastOf returns the entries to show.
func (q *inquiry) lastOf(all []flight.Entry) []flight.Entry { return all[max(0, len(all)-q.last):] }

// write prints parts of the answer as text. With -o json, it prints the whole answer as one document at the
// end.
func (q *inquiry) write(parts ...func(*answer, *strings.Builder)) error {
	if q.output.Value == "json" {
		return exit.Unwritten(debug.WriteJSON(q.streams.Out, &q.answer))
	}
	var b strings.Builder
	for _, part := range parts {
		part(&q.answer, &b)
	}
	_, err := io.WriteString(q.streams.Out, b.String())
	return exit.Unwritten(err)
}

func line(b *strings.Builder, format string, args ...any) {
	fmt.Fprintf(b, "%s\n", terminal.OneLine(fmt.Sprintf(format, args...)))
}
