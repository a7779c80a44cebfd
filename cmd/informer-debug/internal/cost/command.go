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

// costFlags are those of cost.
type costFlags struct {
	sight.Flags
	sample int
	qps    float64
	keep   string
	output output.Choice
}

// Command returns the verb cost, which writes to s.
func Command(s terminal.Streams) *cobra.Command {
	flags := costFlags{output: output.Choice{Words: []string{"json"}}}
	cmd := &cobra.Command{
		Use:   "cost [TYPE[,TYPE...]|all]",
		Short: "Say what it would take to cache a cluster",
		Long: `cost reads a sample of each TYPE, or of all that can be listed and watched, in all namespaces or in
that of -n. It holds the sample in memory in one form after the other, and says what all
objects would take:

  ON THE WIRE  the bytes of a list, before compression
  CLIENT-GO    as informers of client-go have it: each object decoded by apimachinery, whole,
               sharing nothing with others, in a map by key. client-go itself does not run.
  WHOLE        as an informer of Millrace has it: with shared parts, in its cache
  PACKED       the same with Store: sharedinformer.Packed
  NO MANAGED   WHOLE with Keep: wire.WithoutManagedFields
  METADATA     WHOLE with metadata alone
  KEEP         WHOLE with the fields of --keep, "-" where the type does not have them

Built-in types are decoded into their Go types, and others into unstructured objects, which
take more than a Go type would. What an informer holds but objects is not in it.

A form is measured by the live heap of this process, after two collections, less what there was
before. The sample is taken in runs of neighbours, at ` + fmt.Sprint(mostRuns) + ` places of the list, since neighbours
have parts in common; from it the figures are scaled to all objects. ± is how far the fourths of
the sample are apart, half of it; what was read to its end has none. It is large where little is
held and tables grow in steps. The objects of a sample have fewer others to share with than those
of the cluster: WHOLE and PACKED are rather less than shown. A few KiB more or less are noise.

The sample ends at ` + terminal.Bytes(mostSampled) + ` of a type, and at ` + fmt.Sprint(mostRequests) + ` requests; between the places, metadata is
read, no more than ` + fmt.Sprint(mostSkipped) + ` objects at a time. What came short is said below the table.

` + exit.See,
		Example: `  informer-debug cost
  informer-debug cost pods,secrets,nodes --keep spec.nodeName,status.phase
  informer-debug cost all --sample 2000 -o json`,
		Args: exit.Args(0, 1),
	}
	flags.Add(cmd)
	playback.Refuse(cmd, "cost reads samples of a cluster; informer-debug churn --replay %s says what Keep would save of what was recorded")
	_ = cmd.Flags().MarkHidden("attach") // it fails only for a flag that does not exist
	_ = cmd.Flags().MarkHidden("all-namespaces")
	cmd.Flags().IntVar(&flags.sample, "sample", 500, "how many objects of each type to read")
	cmd.Flags().Float64Var(&flags.qps, "qps", 5, "requests a second at most")
	cmd.Flags().StringVar(&flags.keep, "keep", "", "fields that an informer would keep, such as spec.nodeName,status.phase")
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
		return exit.Usage("cost reads a cluster: what the caches of a process have, \"informer-debug get --attach\" shows")
	}
	if err := f.Flags.Check(); err != nil {
		return err
	}
	f.AllNamespaces = f.Namespace == ""
	switch {
	case f.sample <= 0 || f.sample > mostSample:
		return exit.Usage("--sample is %d: want 1 to %d", f.sample, mostSample)
	case !(f.qps > 0):
		return exit.Usage("--qps is %v: want more than 0", f.qps)
	}
	return nil
}

// run measures one type after the other.
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
		return &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("interrupted: %d of %d types are measured", len(all.Types), len(targets))}
	case !slices.ContainsFunc(all.Types, func(t *cost) bool { return t.err == nil }):
		first := all.Types[0]
		return first.at.Unavailable(fmt.Errorf("none of the types could be read: %w", first.err), first.err)
	}
	return nil
}

// everything finds all that can be listed and watched.
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
	asking, cancel := context.WithTimeoutCause(ctx, cluster.Patience(cfg), errors.New("the server does not say what it serves"))
	defer cancel()
	mappings, err := client.Mapper().Mappings(asking)
	var all []cluster.Target
	for _, m := range mappings {
		// A type may be served in several versions, and events in two groups: the objects are
		// the same.
		again := m.Resource.Resource == "events" && m.Resource.Group == "events.k8s.io" ||
			slices.ContainsFunc(all, func(t cluster.Target) bool { return t.Mapping.Resource.GroupResource() == m.Resource.GroupResource() })
		if cluster.CanWatch(m) && (m.Namespaced || f.Namespace == "") && !again {
			at.Mapping, at.Namespace = m, f.Namespace
			all = append(all, at)
		}
	}
	switch {
	case len(all) == 0 && err == nil:
		err = errors.New("the server offers nothing that can be listed and watched")
		fallthrough
	case len(all) == 0:
		client.CloseIdleConnections()
		return nil, nil, at.Unavailable(cluster.RootCause(err), err)
	case err != nil:
		c.Trouble(time.Now(), "a part of what the server serves is missing: %v", cluster.RootCause(err))
	}
	slices.SortStableFunc(all, func(a, b cluster.Target) int {
		return strings.Compare(object.ResourceName(a.Mapping.Resource), object.ResourceName(b.Mapping.Resource))
	})
	return cfg, all, nil
}
