package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/bench/results"
	"github.com/millrace-dev/millrace/bench/scenario"
)

// runFlags are those of the command run.
type runFlags struct {
	scenarios   []string
	contestants []string
	rounds      int
	objects     int
	seed        uint64
	hostile     bool
	json        string
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure, and print a table",
		Long: `Measure scenarios round by round, the contestants in turn, and print a table.

Progress goes to stderr, the table to stdout. The exit code is 1 when something
failed or the contestants did not do the same work; a target that is not met is
no failure.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", nil, "what to measure, comma-separated (default all)")
	flags.StringSliceVar(&f.contestants, "contestant", nil, "who takes part, comma-separated (default all)")
	flags.IntVar(&f.rounds, "rounds", 5, "how often each contestant runs")
	flags.IntVar(&f.objects, "objects", scenario.DefaultObjects, "how many objects there are")
	flags.Uint64Var(&f.seed, "seed", 1, "what the objects are made from")
	flags.BoolVar(&f.hostile, "hostile", false, "objects in which nothing repeats")
	flags.StringVar(&f.json, "json", "", "file to write the results to")
	return cmd
}

func (f runFlags) validate() error {
	if f.rounds < 1 || f.objects < 1 {
		return errors.New("--rounds and --objects must be at least 1")
	}
	for _, name := range f.contestants {
		if !slices.Contains(scenario.Contestants(), name) {
			return fmt.Errorf("there is no contestant %q: want of %v", name, scenario.Contestants())
		}
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
	if c.self, err = os.Executable(); err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	bin, err := os.MkdirTemp("", "informer-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	programs, versions, err := build(ctx, root, bin, participants(chosen, f.contestants), progress)
	if err != nil {
		return err
	}
	c.programs = programs
	measured := results.Results{V: results.Version, Env: environment(os.Args[1:], f.rounds, versions)}
	for _, s := range chosen {
		var variants []results.Result
		for _, j := range s.Jobs(f.objects) {
			if f.hostile {
				j.Params[scenario.Hostile] = 1
			}
			all, overTime, err := c.run(ctx, j)
			if err != nil {
				return err
			}
			rows := summarize(j, all)
			for at, row := range rows {
				if points := overTime[row.Contestant]; len(points) > 0 {
					rows[at].Series = map[string][]results.Point{results.RSSOverTime: points}
				}
			}
			variants = append(variants, rows...)
			if err := writeTable(out, j, all, rows); err != nil {
				return err
			}
		}
		if err := writeGrowth(out, variants); err != nil {
			return err
		}
		measured.Results = append(measured.Results, variants...)
		if f.json != "" { // after each scenario: a run may be cut short
			if err := measured.Save(f.json); err != nil {
				return err
			}
		}
	}
	return nil
}

// participants are the contestants that any of the scenarios needs, less those
// that were not asked for.
func participants(chosen []scenario.Scenario, asked []string) (names []string) {
	for _, name := range scenario.Contestants() {
		needed := slices.ContainsFunc(chosen, func(s scenario.Scenario) bool { return slices.Contains(s.Contestants, name) })
		if needed && (len(asked) == 0 || slices.Contains(asked, name)) {
			names = append(names, name)
		}
	}
	return names
}
