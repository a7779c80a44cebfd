package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// runFlags contains the flags for the run command.
type runFlags struct {
	scenarios   []string
	contestants []string
	rounds      int
	objects     int
	seed        uint64
	hostile     bool
	json        string
	resume      bool
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the benchmarks and print a table",
		Long: `Measure scenarios round by round, alternating between contestants, and print a
table.

Progress goes to stderr, the table to stdout. The exit code is 1 if something
failed or the contestants did not do the same work. Missed targets and slower
revisions are not failures.

A contestant can also be run at another revision, which is built in a temporary
worktree:

  informer-bench run --contestant millrace,millrace@main

Two revisions of a contestant are compared pair by pair. The output shows the
median, minimum and maximum ratio over the rounds, and whether the revisions
differ by more than noise, which takes at least 5 rounds to tell.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", nil, "comma-separated scenarios or scenario groups (default all)")
	flags.StringSliceVar(&f.contestants, "contestant", nil, "comma-separated contestants, each NAME or NAME@REVISION (default all)")
	flags.IntVar(&f.rounds, "rounds", 5, "rounds per contestant")
	flags.IntVar(&f.objects, "objects", scenario.DefaultObjects, "number of objects")
	flags.Uint64Var(&f.seed, "seed", 1, "seed for generating objects")
	flags.BoolVar(&f.hostile, "hostile", false, "use objects with no repeated content")
	flags.StringVar(&f.json, "json", "", "file to write the results to")
	flags.BoolVar(&f.resume, "resume", false, "keep the scenarios in the --json file of an interrupted run, and measure the others")
	return cmd
}

func (f runFlags) validate() error {
	if f.rounds < 1 || f.objects < 1 {
		return errors.New("--rounds and --objects must be at least 1")
	}
	if f.resume && f.json == "" {
		return errors.New("--resume needs the results file: set --json")
	}
	return nil
}

func run(ctx context.Context, f runFlags, out, progress io.Writer) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	chosen, err := scenario.Choose(f.scenarios)
	if err != nil {
		return err
	}
	c := &contest{rounds: f.rounds, seed: f.seed, progress: progress}
	if c.entrants, err = enter(chosen, f.contestants); err != nil {
		return err
	}
	if f.json != "" {
		if err := results.Writable(f.json); err != nil {
			return err // fail now, not after the first scenario
		}
	}
	if c.self, err = os.Executable(); err != nil {
		return err
	}
	b := &builder{progress: progress}
	if b.root, err = repository(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "informer-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.build(ctx, c.entrants); err != nil {
		return err
	}
	measured := &results.Results{V: results.Version, Env: environment(os.Args[1:], f.rounds, b.versions)}
	if f.resume {
		if measured, err = interrupted(f.json, measured.Env); err != nil {
			return err
		}
	}
	var all []compared
	for _, s := range chosen {
		if measured.Has(s.Name) {
			fmt.Fprintf(progress, "%s: already in %s\n", s.Name, f.json)
			continue
		}
		if len(c.of(scenario.Job{Scenario: s})) == 0 {
			fmt.Fprintf(progress, "%s: none of the contestants takes part\n", s.Name)
			continue
		}
		if s.Smallest {
			if err := canLimit(); err != nil {
				fmt.Fprintf(progress, "%s: skipped: %v\n", s.Name, err)
				continue
			}
		}
		variants, differences, err := c.measure(ctx, s, f, out)
		if err != nil {
			return err
		}
		all = append(all, differences...)
		measured.Results = append(measured.Results, variants...)
		if f.json != "" { // save after each scenario, in case the run is interrupted
			if err := measured.Save(f.json); err != nil {
				return err
			}
		}
	}
	return writeConclusion(out, all)
}

// interrupted returns the results of an interrupted run, which a run in env may continue.
func interrupted(path string, env results.Env) (*results.Results, error) {
	r, err := results.Load(path)
	if err != nil {
		return nil, err
	}
	if err := r.Env.Continue(env); err != nil {
		return nil, fmt.Errorf("resume the run in %s: %w", path, err)
	}
	return r, nil
}

// measure runs all variants of a scenario and prints them.
func (c *contest) measure(ctx context.Context, s scenario.Scenario, f runFlags, out io.Writer) (variants []results.Result, differences []compared, err error) {
	for _, j := range s.Jobs(f.objects) {
		if f.hostile {
			j.Params[scenario.Hostile] = 1
		}
		all, overTime, err := c.run(ctx, j)
		if err != nil {
			return nil, nil, err
		}
		rows := summarize(j, c.of(j), all)
		for at, row := range rows {
			if points := overTime[row.Contestant]; len(points) > 0 {
				rows[at].Series = map[string][]results.Point{results.RSSOverTime: points}
			}
		}
		variants = append(variants, rows...)
		if !paired(c.of(j)) {
			if err := writeTable(out, j, all, rows); err != nil {
				return nil, nil, err
			}
		}
		between := compare(j, c.of(j), all)
		for _, d := range between {
			if err := writeCompared(out, d); err != nil {
				return nil, nil, err
			}
		}
		differences = append(differences, between...)
	}
	return variants, differences, writeGrowth(out, variants)
}
