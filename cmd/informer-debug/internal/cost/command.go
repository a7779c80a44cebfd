package cost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// costFlags holds the flags of cost.
type costFlags struct {
	sight.Flags
	sample int
	qps    float64
	keep   string
	output output.Choice
}

// Command returns the cost command, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	flags := costFlags{output: output.Choice{Words: []string{"json"}}}
	cmd := &cobra.Command{
		Use:   "cost [TYPE[,TYPE...]|all]",
		Short: "Estimate the memory for caching a cluster",
		Long: `cost reads a sample of each TYPE, or of all types that support list and watch, in all namespaces
or the one given with -n. It loads the sample into memory in one form after another, and
estimates the memory for all objects:

  ON THE WIRE  size of a list, before compression
  CLIENT-GO    as in client-go informers: each object completely decoded by apimachinery,
               without sharing, in a map by key. client-go itself is not run.
  WHOLE        as in Millrace informers: with equal values shared, in the informer's cache
  PACKED       the same with Store: sharedinformer.Packed
  NO MANAGED   WHOLE with Keep: wire.WithoutManagedFields
  METADATA     WHOLE with only metadata
  KEEP         WHOLE with the fields in --keep; "-" if the type does not have them

Built-in types are decoded into their Go types, and others into unstructured objects, which
take more memory than a Go type would. The estimates include only the objects, not the rest of
an informer.

A form is measured as the growth of this process's live heap, after two garbage collections.
The sample consists of runs of consecutive objects at ` + fmt.Sprint(mostRuns) + ` positions in the list,
since neighbours have values in common; the figures are extrapolated to all objects. ± is half
the spread between the quarters of the sample, and omitted if all objects were read. It is large
if the objects are small and tables grow in steps. Objects in a sample have fewer others to share
values with than in the whole cluster, so WHOLE and PACKED are upper bounds. Differences of a few
KiB are noise.

The sample of a type ends after ` + terminal.Bytes(mostSampled) + ` or ` + fmt.Sprint(mostRequests) + ` requests; between the positions, cost reads
metadata of at most ` + fmt.Sprint(mostSkipped) + ` objects at a time. Incomplete samples are reported below the table.

` + exit.See,
		Example: `  informer-debug cost
  informer-debug cost pods,secrets,nodes --keep spec.nodeName,status.phase
  informer-debug cost all --sample 2000 -o json`,
		Args: exit.Args(0, 1),
	}
	flags.Add(cmd)
	playback.Refuse(cmd, "cost samples a cluster; informer-debug churn --replay %s reports what Keep would save for the recorded objects")
	_ = cmd.Flags().MarkHidden("attach") // fails only if the flag does not exist
	_ = cmd.Flags().MarkHidden("all-namespaces")
	cmd.Flags().IntVar(&flags.sample, "sample", 500, "number of objects to read per type")
	cmd.Flags().Float64Var(&flags.qps, "qps", 5, "maximum requests per second")
	cmd.Flags().StringVar(&flags.keep, "keep", "", "fields an informer would keep, such as spec.nodeName,status.phase")
	flags.output.Add(cmd, "output format (default a table)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.check(); err != nil {
			return err
		}
		return flags.run(cmd.Context(), s, strings.Join(args, ""))
	}
	return cmd
}

func (f *costFlags) check() error {
	if f.To != "" {
		return exit.Usage("cost examines a cluster: use \"informer-debug get --attach\" to see a process's caches")
	}
	if err := f.Flags.Check(); err != nil {
		return err
	}
	f.AllNamespaces = f.Namespace == ""
	switch {
	case f.sample <= 0 || f.sample > mostSample:
		return exit.Usage("--sample must be from 1 to %[2]d, got %[1]d", f.sample, mostSample)
	case !(f.qps > 0):
		return exit.Usage("--qps must be positive, got %v", f.qps)
	}
	return nil
}

// run measures the types sequentially.
func (f *costFlags) run(ctx context.Context, s terminal.Streams, types string) error {
	c := terminal.NewConsole(s, false)
	var cfg *config.Config
	var targets []cluster.Target
	var err error
	if types == "" || types == "all" {
		cfg, targets, err = f.everything(ctx, c)
	} else {
		cfg, targets, err = f.Targets(ctx, s, types, c)
	}
	if err != nil {
		return exit.Unfinished(ctx, 0, err)
	}
	defer targets[0].Client.CloseIdleConnections()
	r, err := newSampler(cfg, f)
	if err != nil {
		return &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	defer r.http.CloseIdleConnections()
	var all costs
	for n, at := range targets {
		if len(targets) > 1 {
			c.State(time.Now(), "%d of %d  %s", n+1, len(targets), at)
		}
		one := r.cost(ctx, at)
		if ctx.Err() != nil {
			break
		}
		all.Types = append(all.Types, one)
	}
	if len(all.Types) > 0 {
		all.sum()
		if err := all.write(s.Out, f); err != nil {
			return exit.Unwritten(err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("interrupted: %d of %d types were measured", len(all.Types), len(targets))}
	case !slices.ContainsFunc(all.Types, func(t *cost) bool { return t.err == nil }):
		first := all.Types[0]
		return first.at.Unavailable(fmt.Errorf("none of the types could be read: %w", first.err), first.err)
	}
	return nil
}

// everything returns all resources that can be listed and watched.
func (f *costFlags) everything(ctx context.Context, c *terminal.Console) (*config.Config, []cluster.Target, error) {
	f.Connect.Load.Namespace, f.Connect.Load.Logger = f.Namespace, c.Logger()
	cfg, err := config.LoadWith(f.Connect.Load)
	if err != nil {
		return nil, nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return nil, nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	at := cluster.Target{Client: client, Server: cluster.ServerName(cfg.Host)}
	asking, cancel := context.WithTimeoutCause(ctx, cluster.Patience(cfg), errors.New("discovery did not respond"))
	defer cancel()
	mappings, err := client.Mapper().Mappings(asking)
	var all []cluster.Target
	for _, m := range mappings {
		// The same objects may be served in several versions and, for events, in two groups.
		again := m.Resource.Resource == "events" && m.Resource.Group == "events.k8s.io" ||
			slices.ContainsFunc(all, func(t cluster.Target) bool { return t.Mapping.Resource.GroupResource() == m.Resource.GroupResource() })
		if cluster.CanWatch(m) && (m.Namespaced || f.Namespace == "") && !again {
			at.Mapping, at.Namespace = m, f.Namespace
			all = append(all, at)
		}
	}
	switch {
	case len(all) == 0 && err == nil:
		err = errors.New("the server has no resources that support list and watch")
		fallthrough
	case len(all) == 0:
		client.CloseIdleConnections()
		return nil, nil, at.Unavailable(cluster.RootCause(err), err)
	case err != nil:
		c.Trouble(time.Now(), "discovery is incomplete: %v", cluster.RootCause(err))
	}
	slices.SortStableFunc(all, func(a, b cluster.Target) int {
		return strings.Compare(object.ResourceName(a.Mapping.Resource), object.ResourceName(b.Mapping.Resource))
	})
	return cfg, all, nil
}
