package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/compare"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
)

// checkFlags holds the flags specific to check.
type checkFlags struct {
	timeout time.Duration
	limit   int
	output  output.Choice
	console *terminal.Console // set by run
}

// Command returns the check command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	var look sight.Flags
	flags := checkFlags{output: output.Choice{Words: []string{"json"}}}
	cmd := &cobra.Command{
		Use:   "check [TYPE[,TYPE...]]",
		Short: "Compare caches with the server",
		Long: `check lists the metadata of objects with a consistent read from the server, and compares
it with an informer's cache once the cache has reached the version of the list. Later
changes do not count as differences. Objects that differ are read a second time:

  missing  only the server has the object
  ghost    only the cache has the object
  version  the cache has a different version of the object
  uid      the cache has a different object with that name: it was deleted and recreated

If objects differ and nothing else changes, check has to wait until the informer receives
a bookmark, which takes about a minute.

` + sight.Help + `

With --attach, TYPE is the name of an informer in the process, such as pods. Without TYPE,
check compares all informers, and reports those that it cannot compare, for example because
you are not allowed to list the objects. The informers' names determine which namespaces and
selectors to list, and the kubeconfig selects the cluster: with a process at a URL, --token
and the TLS flags apply only to the process.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug check pods,deploy -A
  informer-debug check --attach http://localhost:6060
  informer-debug check pods --attach pod/janitor-0 -n shop --timeout 5m -o json`,
		Args: exit.Args(0, 1),
	}
	look.Add(cmd)
	playback.Refuse(cmd, "a recording has no server to compare with; informer-debug get --replay %s shows what its caches held")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 2*time.Minute, "how long to wait for the cache to catch up with the list; 0 means forever")
	cmd.Flags().IntVar(&flags.limit, "limit", 10, "number of differences to show per informer; 0 shows all")
	flags.output.Add(cmd, "output format (default text)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(look.Check(), flags.check(&look)); err != nil {
			return err
		}
		ctx, cancel := exit.Limited(cmd.Context(), flags.timeout)
		defer cancel()
		types := strings.Join(args, "")
		v, err := look.Open(ctx, s, types, terminal.NewConsole(s, false))
		if err != nil {
			return exit.Unfinished(ctx, flags.timeout, err)
		}
		defer v.Close()
		return exit.Unfinished(ctx, flags.timeout, flags.run(ctx, s, v, types))
	}
	return cmd
}

func (f *checkFlags) check(look *sight.Flags) error {
	switch {
	case f.timeout < 0:
		return exit.Usage("--timeout must not be negative, got %s", f.timeout)
	case f.limit < 0:
		return exit.Usage("--limit must not be negative, got %d", f.limit)
	case look.To != "" && look.Selector != "":
		return exit.Usage("--selector cannot be used with --attach: the informer's own selector applies")
	}
	return nil
}

// run compares the caches of all informers.
func (f *checkFlags) run(ctx context.Context, s terminal.Streams, v *sight.Sight, types string) error {
	f.console = terminal.NewConsole(s, false)
	if err := v.Ready(ctx); err != nil {
		return err
	}
	at, err := v.Server(s)
	if err != nil {
		return err
	}
	if v.Client == nil {
		defer at.Client.CloseIdleConnections()
	}
	status, err := v.Process.Status(ctx)
	if err != nil {
		return cmp.Or(v.Unanswered(ctx, err), v.Silent())
	}
	informers, err := sight.Choose(status.Informers, types, v.Flags.To != "")
	if err != nil {
		return err
	}
	ended, wait := f.all(ctx, v, at, informers)
	defer wait()
	names := sight.Distinct(informers)
	var equal, differ int
	var failed []error
	var outside, late error // outside the namespace, or out of time
	for n, end := range ended {
		result, err := end()
		if result != nil {
			f.warn(s, v, result)
			if err := f.write(s.Out, result, names[n]); err != nil {
				return exit.Unwritten(err)
			}
		}
		switch {
		case err != nil && len(informers) == 1:
			return err
		case err == nil && len(result.Differences) > 0:
			differ++
			continue
		case err == nil:
			equal++
			continue
		case ctx.Err() != nil:
			late = err
			if result != nil { // the wait was already reported
				continue
			}
		case exit.CodeOf(err) == exit.CodeUsage:
			outside = err
		default:
			failed = append(failed, err)
		}
		f.console.Trouble(time.Now(), "%-12s  %s: %s", "not compared", names[n], exit.Advised(err))
	}
	switch {
	case differ == 0 && late != nil:
		return late
	case differ == 0 && equal == 0 && len(failed) == 0:
		return outside
	}
	return verdict(differ, len(informers), failed)
}

// atOnce is how many informers are compared concurrently, so that waiting for one informer's cache does not
// use up the time for the others.
const atOnce = 8

// all starts comparing all informers. For each informer, it returns a function that waits for the
// result. wait waits for all comparisons to finish.
func (f *checkFlags) all(ctx context.Context, v *sight.Sight, at cluster.Target, informers []debug.Informer) (ends []func() (*compare.Result, error), wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for n := range informers {
		var result *compare.Result
		var err error
		done := make(chan struct{})
		running.Go(func() {
			defer close(done)
			select {
			case turns <- struct{}{}:
				defer func() { <-turns }()
				result, err = compare.Informer(ctx, v, at, &informers[n], f.console)
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		})
		ends = append(ends, func() (*compare.Result, error) {
			<-done
			return result, err
		})
	}
	return ends, func() {
		cancel()
		running.Wait()
	}
}

// verdict returns an error if any comparison failed or found differences.
func verdict(differ, all int, failed []error) error {
	e := &exit.Error{Code: exit.CodeFalse, Err: errors.New("a cache differs from the server")}
	missed := fmt.Errorf("%d of %d informers could not be compared", len(failed), all)
	switch {
	case differ > 0 && len(failed) > 0:
		e.Err = fmt.Errorf("%w; %w", e.Err, missed)
	case len(failed) > 0:
		e.Code, e.Err = exit.CodeOf(failed[0]), missed
	case differ == 0:
		return nil
	}
	return e
}

// warn prints a warning if the result may not mean anything.
func (f *checkFlags) warn(s terminal.Streams, v *sight.Sight, r *compare.Result) {
	c := terminal.NewConsole(s, false)
	if r.Doubt != "" && v.Flags.To != "" {
		c.Trouble(time.Now(), "%s may not be the process's cluster (%s): use --context or --server to select another one", cluster.ServerName(v.Config.Host), r.Doubt)
	}
	if r.Cluster != "" {
		c.Trouble(time.Now(), "the informer belongs to the process's cluster %s: check that %s is the same cluster", r.Cluster, cluster.ServerName(v.Config.Host))
	}
}

// write prints the result for one informer.
func (f *checkFlags) write(w io.Writer, r *compare.Result, name string) error {
	r.Count()
	sentence, all := name+strings.TrimPrefix(r.Sentence(), r.Informer), r.Differences
	if f.limit > 0 && len(all) > f.limit {
		r.Differences = all[:f.limit]
		defer func() { r.Differences = all }()
	}
	if f.output.Value == "json" {
		return debug.WriteJSON(w, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", terminal.OneLine(sentence))
	for n := range r.Differences {
		fmt.Fprintf(&b, "  %s\n", terminal.OneLine(r.Differences[n].String()))
	}
	if more := len(all) - len(r.Differences); more > 0 {
		fmt.Fprintf(&b, "  and %d more: --limit 0 shows all\n", more)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
