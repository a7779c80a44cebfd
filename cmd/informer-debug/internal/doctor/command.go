package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// doctorFlags holds the flags specific to doctor.
type doctorFlags struct {
	sight.Flags
	period time.Duration
	strict bool
	output output.Choice
}

// doctorFor is the default for --for.
const doctorFor = 5 * time.Second

// Command returns the doctor command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	flags := doctorFlags{output: output.Choice{Words: []string{"json"}}}
	cmd := &cobra.Command{
		Use:   "doctor TYPE[,TYPE...] | --attach PROCESS",
		Short: "Find what is wrong, or soon will be, with a cluster or a process",
		Long: `doctor checks everything that informers depend on, and prints one line per check: ok, a warning
or a problem, and how to fix it. It exits with 4 if there is a problem or, with --strict, a
warning. A note is not a problem, but may explain why nothing happens.

For a cluster, with TYPEs, it checks whether these credentials may list and watch them, and
prints a Role that would allow it; the response time; streaming lists; bookmarks, if --for is
long enough; protobuf and CBOR; the clock; and when certificates and the token expire. To test
streaming lists, doctor reads the metadata of all objects once, for ten seconds at most.

For a process, with --attach, it looks for informers that are not synced, receive no changes,
repeatedly list all objects, or exist twice; handlers that lag or panic; indexes with one huge
bucket; controllers that are not running; queues that grow within --for; keys that are
reconciled over and over, hang, starve, or keep failing; and a lost lease. For hanging calls it
shows the key and the current function. It then compares caches of up to 20,000 objects with the
cluster of your kubeconfig, if there is one: it reads the objects' metadata once, for ten seconds
at most.

The most severe findings come first.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug doctor pods,deployments.apps -A --for 90s
  informer-debug doctor --attach http://localhost:6060`,
		Args: exit.Args(0, 1),
	}
	flags.Flags.Flags.Add(cmd)
	playback.Refuse(cmd, "doctor examines running systems; informer-debug get --replay %s shows the state and the failures of recorded informers")
	cmd.Flags().BoolVarP(&flags.AllNamespaces, "all-namespaces", "A", false, "objects in all namespaces")
	cmd.Flags().DurationVar(&flags.period, "for", doctorFor, "how long to watch for bookmarks and growing queues")
	cmd.Flags().BoolVar(&flags.strict, "strict", false, "also exit with 4 if there are warnings")
	flags.output.Add(cmd, "output format (default text)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		types := strings.Join(args, "")
		if err := flags.Check(); err != nil {
			return err
		}
		switch {
		case flags.period <= 0:
			return exit.Usage("--for must be positive, got %s", flags.period)
		case flags.To == "" && types == "":
			return exit.Usage("specify the types to examine, for example \"pods\", or a running process with --attach")
		case flags.To != "" && types != "":
			return exit.Usage("doctor examines a whole process: omit %q or --attach", types)
		}
		return flags.run(cmd.Context(), s, types)
	}
	return cmd
}

func (f *doctorFlags) run(ctx context.Context, s terminal.Streams, types string) error {
	var found findings
	var err error
	if f.period > doctorFor {
		terminal.NewConsole(s, false).State(time.Now(), "%-12s  for %s (--for)", "looking", f.period)
	}
	if f.To != "" {
		err = f.process(ctx, s, &found)
	} else {
		err = f.cluster(ctx, s, types, &found)
	}
	if ctx.Err() != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: exit.ErrInterrupted}
	}
	found.order()
	problems, warnings := found.count(levelProblem), found.count(levelWarning)
	if err == nil || problems > 0 { // print the findings first: they may explain err
		if err := found.write(s.Out, f.output.Value); err != nil {
			return exit.Unwritten(err)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case problems > 0:
		return &exit.Error{Code: exit.CodeFalse, Err: fmt.Errorf("problems: %d", problems)}
	case f.strict && warnings > 0:
		return &exit.Error{Code: exit.CodeFalse, Err: fmt.Errorf("warnings: %d", warnings)}
	}
	return nil
}

func (f *doctorFlags) process(ctx context.Context, s terminal.Streams, found *findings) error {
	v, err := f.Open(ctx, s, "", nil)
	if err != nil {
		return err
	}
	x := examination{process: v.Process, findings: found, to: f.To}
	if err := x.run(ctx, f.period); err != nil {
		return v.Unanswered(ctx, err)
	}
	x.compare(ctx, s, v)
	return nil
}

func (f *doctorFlags) cluster(ctx context.Context, s terminal.Streams, types string, found *findings) error {
	c := terminal.NewConsole(s, false)
	f.Connect.Load.Namespace, f.Connect.Load.Logger = f.Namespace, c.Logger()
	cfg, err := config.LoadWith(f.Connect.Load)
	if err != nil {
		return &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	defer client.CloseIdleConnections()
	p, err := newProbe(cfg, found)
	if err != nil {
		return &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	defer p.http.CloseIdleConnections()
	p.credentials(time.Now())
	at := cluster.Target{Client: client, Server: cluster.ServerName(cfg.Host)}
	mappings, err := at.ResolveAll(ctx, types, cluster.Patience(cfg), c)
	if err != nil {
		return err
	}
	for n, m := range mappings {
		at.Mapping, at.Namespace = m, ""
		if m.Namespaced && !f.AllNamespaces {
			at.Namespace = cfg.Namespace
		}
		if err := p.resource(ctx, at, n == 0, f.period); err != nil {
			return cause(ctx, err)
		}
	}
	return nil
}

// cause returns the cause of ctx if it is done, and err otherwise.
func cause(ctx context.Context, err error) error {
	if e := context.Cause(ctx); e != nil {
		return e
	}
	if _, ok := errors.AsType[*exit.Error](err); ok {
		return err
	}
	return &exit.Error{Code: exit.CodeUnavailable, Err: err}
}
