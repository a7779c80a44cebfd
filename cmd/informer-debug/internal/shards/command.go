package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/shard/membership"
)

// shardsFlags holds the flags specific to shards.
type shardsFlags struct {
	attach.Flags
	allNamespaces bool

	output    output.Choice
	noHeaders bool
	watch     bool
	interval  time.Duration
	count     int
}

// Command returns the shards command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	f := shardsFlags{output: output.Choice{Value: "table", Words: []string{"table", output.Wide, output.JSON, output.JSONL, output.YAML}}}
	cmd := &cobra.Command{
		Use:   "shards [GROUP]",
		Short: "Show how replicas divide their work",
		Long: `shards shows groups of replicas that share work: the members, how many slots each one owns and
should own, how long it has been silent, the imbalance, slots without an owner, and handovers in
progress.

Without --attach, it reads the groups' Leases in the namespace, or with -A in all namespaces,
which requires the verb list on leases there. To determine how long members have been silent, it
compares their clocks with its own; how long handovers have been pending is only known with
--watch.

With --attach, it queries one member, which has been watching the others and knows which work in
progress delays its handovers.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug shards -n shop
  informer-debug shards -A
  informer-debug shards carts -n shop -o wide --watch
  informer-debug shards --attach pod/carts-0 -n shop`,
		Args: exit.Args(0, 1),
	}
	f.Add(cmd)
	playback.Refuse(cmd, "a recording (%s) has no information about shards: use the cluster or a member")
	flags := cmd.Flags()
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "groups in all namespaces")
	f.output.Add(cmd, "output format")
	flags.BoolVar(&f.noHeaders, "no-headers", false, "print the tables without headers")
	flags.BoolVarP(&f.watch, "watch", "w", false, "refresh until Ctrl-C or --count")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "time between refreshes")
	flags.IntVarP(&f.count, "count", "c", 0, "with --watch, stop after this many refreshes; 0 means never")
	// These fail only if the flags do not exist.
	(&sight.Completer{Attach: &f.Flags, Namespace: &f.Namespace}).Register(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		ctx, cancel := sight.Completing(cmd)
		defer cancel()
		if len(args) == 0 {
			names = f.names(ctx)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		group := ""
		if len(args) > 0 {
			group = args[0]
		}
		return f.run(cmd.Context(), s, group)
	}
	return cmd
}

func (f *shardsFlags) check() error {
	switch {
	case f.allNamespaces && f.Namespace != "":
		return exit.Usage("-n %s and -A cannot be used together", f.Namespace)
	case f.allNamespaces && f.To != "":
		return exit.Usage("-A cannot be used with --attach: a member reports its own groups")
	case f.interval < 100*time.Millisecond:
		return exit.Usage("--interval must be at least 100ms, got %s", f.interval)
	case f.count < 0:
		return exit.Usage("--count must not be negative, got %d", f.count)
	}
	return f.Check()
}

// names completes group names.
func (f *shardsFlags) names(ctx context.Context) (names []string) {
	l, err := f.open(terminal.Quiet())
	if err != nil {
		return nil
	}
	defer l.close()
	groups, _ := l.look(ctx, "") // no suggestions on an error
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names
}

func (f *shardsFlags) run(ctx context.Context, s terminal.Streams, group string) error {
	l, err := f.open(s)
	if err != nil {
		return err
	}
	defer l.close()
	missed := ""
	for n := 1; ; n++ {
		groups, err := l.look(ctx, group)
		switch {
		case ctx.Err() != nil && n > 1:
			return nil
		case ctx.Err() != nil:
			return &exit.Error{Code: exit.CodeRuntime, Err: exit.ErrInterrupted}
		case err != nil && (n == 1 || n == f.count):
			return err
		case err != nil: // retry: the process or group may come back
			if missed != err.Error() {
				missed = err.Error()
				l.console.Trouble(time.Now(), "%-12s  %v", "no look", err)
			}
			if !f.pause(ctx) {
				return nil
			}
			continue
		}
		missed = ""
		if n > 1 && (f.output.Value == "table" || f.output.Value == output.Wide) {
			_, err = fmt.Fprintln(s.Out)
		}
		if err == nil {
			err = f.write(s.Out, groups, n > 1)
		}
		if err != nil {
			return exit.Unwritten(err)
		}
		if !f.watch || n == f.count || !f.pause(ctx) {
			return nil
		}
	}
}

// pause waits for the next refresh. It returns false if ctx is done first.
func (f *shardsFlags) pause(ctx context.Context) bool {
	select {
	case <-time.After(f.interval):
		return true
	case <-ctx.Done():
		return false
	}
}

// shardsLook reads groups from a process or a cluster.
type shardsLook struct {
	flags   *shardsFlags
	process *debug.Client // nil for a cluster
	called  string
	cluster cluster.Target
	console *terminal.Console
	begun   map[string]time.Time // when each move was first seen, for a cluster
}

func (f *shardsFlags) open(s terminal.Streams) (*shardsLook, error) {
	l := &shardsLook{flags: f, console: terminal.NewConsole(s, false)}
	if f.To != "" {
		var err error
		l.process, l.called, err = f.Attach(s)
		return l, err
	}
	f.Connect.Load.Namespace, f.Connect.Load.Logger = f.Namespace, l.console.Logger()
	cfg, err := config.LoadWith(f.Connect.Load)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	known := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(known); err != nil {
		return nil, &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	client, err := rest.NewClient(cfg, known)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	l.cluster = cluster.Target{
		Client: client, Server: cluster.ServerName(cfg.Host), Namespace: cfg.Namespace,
		Mapping: discovery.Mapping{Resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespaced: true},
	}
	if f.allNamespaces {
		l.cluster.Namespace = ""
	}
	return l, nil
}

func (l *shardsLook) close() {
	if l.cluster.Client != nil {
		l.cluster.Client.CloseIdleConnections()
	}
}

// look returns all groups, or only the named one.
func (l *shardsLook) look(ctx context.Context, group string) (all []debug.Group, err error) {
	if l.process == nil {
		return l.lookAtCluster(ctx, group)
	}
	status, err := l.process.Status(ctx)
	if err != nil {
		return nil, l.flags.Unanswered(ctx, l.called, err)
	}
	var names []string
	for _, g := range status.Groups {
		names = append(names, object.FormatKey(object.Key{Namespace: g.Namespace, Name: g.Name}))
		if (group == "" || g.Name == group) && (l.flags.Namespace == "" || g.Namespace == l.flags.Namespace) {
			all = append(all, g)
		}
	}
	where := ""
	if l.flags.Namespace != "" {
		where = " in namespace " + l.flags.Namespace
	}
	switch {
	case len(names) == 0:
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s does not share work with other replicas", l.called), Hint: "a manager does so with Options.Sharding; other programs can expose a group with debug.Options.Groups"}
	case len(all) == 0 && group == "":
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s has no group%s; its groups are %q", l.called, where, names)}
	case len(all) == 0:
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s has no group %q%s; its groups are %q", l.called, group, where, names)}
	}
	return all, nil
}

func (l *shardsLook) lookAtCluster(ctx context.Context, group string) (all []debug.Group, err error) {
	asking, stop := terminal.Late(ctx, l.console)
	statuses, err := membership.Look(asking, l.cluster.Client, l.cluster.Namespace, group)
	stop()
	where, hint := "namespace "+l.cluster.Namespace, "use -n for another namespace, or -A for all"
	if l.flags.allNamespaces {
		where, hint = "any namespace", ""
	}
	switch {
	case err != nil:
		failed := l.cluster.Unavailable(err, rootOf(err))
		if l.flags.allNamespaces && apierrors.IsForbidden(rootOf(err)) {
			failed.Hint = `request the verb "list" on leases in all namespaces; with -n NAMESPACE, it is needed only in that namespace`
		}
		return nil, failed
	case len(statuses) == 0 && group != "":
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no group %q in %s: no Lease has the label %s=%[1]s", group, where, membership.GroupLabel), Hint: hint}
	case len(statuses) == 0:
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no groups in %s: no Lease has the label %s", where, membership.GroupLabel), Hint: hint}
	}
	now, begun := time.Now(), map[string]time.Time{}
	for _, s := range statuses {
		for n := range s.Moves {
			m := &s.Moves[n]
			key := fmt.Sprintf("%q %q %q %q", s.Namespace, s.Group, m.From, m.To)
			begun[key] = now
			if at, ok := l.begun[key]; ok {
				begun[key] = at
			}
			if m.Since = begun[key]; l.begun == nil {
				m.Since = time.Time{} // first seen by this refresh
			}
		}
		all = append(all, debug.GroupOf(s))
	}
	l.begun = begun
	return all, nil
}

// rootOf returns the innermost error.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
