package get

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// getFlags holds the flags specific to get.
type getFlags struct {
	search       string
	typ          string
	cluster      string
	output       output.Flag
	noHeaders    bool
	serverPrint  bool
	showLabels   bool
	labelColumns []string
	sortBy       string
	watch        bool
	watchOnly    bool
	watchEvents  bool
	count        int
	timeout      time.Duration

	order *jsonpath.Path // parsed sortBy, set by check
}

func (f *getFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.search, "search", "", "show only objects whose name contains this text")
	flags.StringVar(&f.typ, "type", "", "Go type of the objects, such as *v1.Pod, if several informers have the same name")
	flags.StringVar(&f.cluster, "cluster-name", "", "cluster of the informer, if the process uses several")
	flags.VarP(&f.output, "output", "o", "output format, see above (default table)")
	flags.BoolVar(&f.noHeaders, "no-headers", false, "print the table without a header")
	flags.BoolVar(&f.serverPrint, "server-print", true, "for a cluster, print the server's columns; if false, print the common ones")
	flags.BoolVar(&f.showLabels, "show-labels", false, "add a column with all labels")
	flags.StringSliceVarP(&f.labelColumns, "label-columns", "L", nil, "labels to print as columns, such as app,tier")
	flags.BoolVarP(&f.watch, "watch", "w", false, "keep printing changes until Ctrl-C, --count or --timeout")
	flags.BoolVar(&f.watchOnly, "watch-only", false, "like --watch, without the existing objects")
	flags.BoolVar(&f.watchEvents, "output-watch-events", false, "with --watch, add ADDED, MODIFIED or DELETED")
	flags.IntVarP(&f.count, "count", "c", 0, "with --watch, stop after this many objects; 0 means never")
	flags.DurationVar(&f.timeout, "timeout", 0, "stop after this duration, with exit code 124; 0 means never")
	flags.StringVar(&f.sortBy, "sort-by", "", "sort by the value at a path, such as .metadata.name or {.status.startTime}")
}

// check validates the flags and parses sortBy.
func (f *getFlags) check() error {
	if !f.output.OfTable() && (f.showLabels || len(f.labelColumns) > 0) {
		return exit.Usage("--show-labels and --label-columns only apply to tables: omit -o %s", f.output.Form)
	}
	f.watch = f.watch || f.watchOnly
	switch {
	case f.count < 0:
		return exit.Usage("--count must not be negative, got %d", f.count)
	case f.timeout < 0:
		return exit.Usage("--timeout must not be negative, got %s", f.timeout)
	case f.count > 0 && !f.watch:
		return exit.Usage("--count requires --watch")
	case f.watchEvents && !f.watch:
		return exit.Usage("--output-watch-events requires --watch")
	case f.watchEvents && slices.Contains([]string{output.Name, output.JSONPath, output.Template}, f.output.Form):
		return exit.Usage("--output-watch-events cannot be used with -o %s: omit it, or use a table, json, jsonl or yaml", f.output.Form)
	}
	if f.sortBy == "" {
		return nil
	}
	order, err := jsonpath.ParsePath(f.sortBy)
	if err != nil {
		return exit.Usage("--sort-by: %w", err)
	}
	f.order = &order
	return nil
}

// Command returns the get command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	var look sight.Flags
	var flags getFlags
	cmd := &cobra.Command{
		Use:   "get [TYPE [NAME] | TYPE/NAME]",
		Short: "Show the contents of caches",
		Long: `get lists the objects in an informer's cache, or shows one of them. The output formats are
those of kubectl:
  table, wide            one line per object. For a cluster, the columns are the server's; for
                         a process, with --watch, and with --server-print=false, they are key,
                         resource version, generation and owner
  json, yaml             the object, or a List of several
  jsonl                  one object per line, as JSON
  name                   TYPE/NAME
  jsonpath=TEMPLATE      such as '{range .items[*]}{.metadata.name}{"\n"}{end}'
  custom-columns=SPEC    such as NAME:.metadata.name,PHASE:.status.phase
  go-template=TEMPLATE   such as '{{range .items}}{{.metadata.name}} {{end}}'
The last three read a file if their name ends in -file, as in jsonpath-file=FILE.

With --watch, more rows follow as the cache changes, and objects are printed individually instead
of as a List. On a cluster, every change is shown. If a process's cache changes faster than it
can be read, only the latest state is shown.

For Secrets, and for all objects in a process without debug.Options.Contents, only the metadata
is available: stderr reports this, and -o json shows a PartialObjectMetadata.

` + sight.Help + `
` + playback.Help + ` get shows the state at its end.

With --attach, TYPE is the name of an informer in the process, such as pods. Without TYPE,
get lists the informers. "get controllers" shows the controllers, "get queue NAME" the keys in a
controller's queue, and "get stack [NAME]" the functions in which its reconcilers, or an
informer's handlers, currently are.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug get deploy,rs,po -n shop
  informer-debug get --attach http://localhost:6060
  informer-debug get stack janitor --attach http://localhost:6060
  informer-debug get pods -n shop -w --output-watch-events
  informer-debug get pods --replay bug.recording
  informer-debug get pods -n shop -l app=web -o wide --attach http://localhost:6060
  informer-debug get pods/web-1 -n shop -o yaml --attach unix:/run/janitor.sock
  informer-debug get pods -A --sort-by .metadata.creationTimestamp -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName
  informer-debug get nodes -o jsonpath='{.items[*].status.addresses[?(@.type=="InternalIP")].address}'`,
		Args: exit.Args(0, 2),
	}
	look.Add(cmd)
	look.Replay.Add(cmd, "")
	cmd.ValidArgsFunction = (&sight.Completer{Attach: &look.Flags, Replay: &look.Replay, Namespace: &look.Namespace, Slash: true, Second: true}).Arguments
	flags.add(cmd)
	// This fails only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{output.Wide, output.JSON, output.JSONL, output.YAML, output.Name, output.JSONPath + "=", output.Columns + "=", output.Template + "="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(look.Check(), flags.check()); err != nil {
			return err
		}
		if look.To != "" && !look.InPod() && look.Connect.Load.Cluster != "" {
			return exit.Usage("--cluster selects a kubeconfig cluster, which get does not use for a process at a URL: use --cluster-name to select an informer by cluster")
		}
		ctx, cancel := exit.Limited(cmd.Context(), flags.timeout)
		defer cancel()
		err := runGet(ctx, s, &look, &flags, args)
		if flags.watch {
			err = exit.UnlessLeft(err)
		}
		if err == nil && errors.Is(context.Cause(ctx), exit.ErrTimedOut) {
			over := fmt.Errorf("--timeout of %s expired", flags.timeout)
			if missing := look.Unheard(); missing != nil {
				over = fmt.Errorf("%w: %w", over, missing)
			}
			err = &exit.Error{Code: exit.CodeTimeout, Err: over}
		}
		return err
	}
	return cmd
}

func runGet(ctx context.Context, s terminal.Streams, look *sight.Flags, flags *getFlags, args []string) error {
	var types, name string
	named := len(args) == 2
	switch len(args) {
	case 2:
		types, name = args[0], args[1]
	case 1:
		types, name, named = attach.CutName(args[0])
	}
	if strings.Contains(name, "/") || len(args) > 0 && types == "" || named && name == "" {
		return exit.Usage("%q: want TYPE, TYPE NAME or TYPE/NAME", strings.Join(args, " "))
	}
	if types == "" && flags.watch {
		return exit.Usage("--watch follows the objects of one TYPE: specify it; informer-debug top follows the informers")
	}
	if name != "" && look.AllNamespaces {
		return exit.Usage("a named object is in one namespace: use -n instead of -A")
	}
	if name != "" && look.To == "" { // no need to list the others
		look.OnlyNamed(name)
	}
	if flags.watch && look.Replay.File != "" {
		return exit.Usage("get shows the state at the end of a recording: omit --watch, or use informer-debug replay %s", look.Replay.File)
	}
	v, err := look.Open(ctx, s, types, terminal.NewConsole(s, false))
	if err != nil && look.To == "" {
		return orPart(err, types)
	}
	if err != nil {
		return err
	}
	defer v.Close()
	if err := v.Wait(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return flags.overBefore(ctx, v.Unsynced())
	}
	g := getter{getFlags: flags, Streams: s, sight: v, console: terminal.NewConsole(s, false)}
	if types == "" {
		return g.informers(ctx)
	}
	if is, err := g.process(ctx, types, name); is {
		return err
	}
	if flags.watch {
		return g.follow(ctx, types, name)
	}
	return g.objects(ctx, types, name)
}

// overBefore returns the error for a get that was cut short before it had anything to show.
func (f *getFlags) overBefore(ctx context.Context, missing error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &exit.Error{Code: exit.CodeRuntime, Err: exit.ErrInterrupted}
	case missing == nil:
		return nil
	}
	return &exit.Error{Code: exit.CodeTimeout, Err: fmt.Errorf("--timeout of %s expired: %w", f.timeout, missing)}
}
