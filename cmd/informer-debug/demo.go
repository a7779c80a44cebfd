package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/demo"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/view"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/config"
)

// demoFlags holds the flags that demo has in addition to watch's.
type demoFlags struct {
	rate     float64
	faults   bool
	seed     uint64
	duration time.Duration
}

func (f *demoFlags) check() error {
	switch {
	case !(f.rate > 0 && f.rate <= demo.MaxRate):
		return exit.Usage("--rate must be positive and at most %[2]d changes per second, got %[1]v", f.rate, demo.MaxRate)
	case f.duration < 0:
		return exit.Usage("--duration must not be negative, got %s", f.duration)
	}
	return nil
}

func newDemo(s surroundings) *cobra.Command {
	var own demoFlags
	var flags view.Flags
	cmd := &cobra.Command{
		Use:   "demo [TYPE]",
		Short: "Show an informer at work against a simulated server",
		Long: `demo starts a simulated API server on a free port of 127.0.0.1, creates, runs and
deletes pods in it, and watches them. Every now and then it injects a fault (*), and
stderr shows how the reflector reacts. TYPE is pods, nodes or leases.

The informer is part of a small program whose controller fails on some pods and is slow
on others. stderr first shows the address of its debug page, and commands to try from
another terminal.

` + view.Help + `

` + exit.See,
		Example: `  informer-debug demo
  informer-debug demo --rate 50 -o wide
  informer-debug demo leases --faults=false --duration 10s`,
		Args:      cobra.MatchAll(exit.Args(0, 1), cobra.OnlyValidArgs),
		ValidArgs: []string{"pods", "nodes", "leases"},
	}
	flags.Add(cmd)
	cmd.Flags().Float64Var(&own.rate, "rate", 4, "pod changes per second")
	cmd.Flags().BoolVar(&own.faults, "faults", true, "inject a fault every ten seconds")
	cmd.Flags().Uint64Var(&own.seed, "seed", 1, "workload seed; the same seed creates the same objects")
	cmd.Flags().DurationVar(&own.duration, "duration", 0, "stop after this duration, with exit code 0; 0 means never")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(own.check(), flags.Check()); err != nil {
			return err
		}
		resource := "pods"
		if len(args) > 0 {
			resource = args[0]
		}
		return runDemo(cmd.Context(), s, object.GVR{Resource: resource}, &own, &flags)
	}
	return cmd
}

// demoBackoff returns a backoff that resets between faults. By default, faults every ten seconds would be
// treated as one long outage, which is right except in a demo.
func demoBackoff() reflector.Backoff {
	return reflector.Backoff{Initial: 500 * time.Millisecond, Max: 4 * time.Second, Reset: demo.FaultInterval / 3}
}

// runDemo starts the server, the workload and the fault injection, and watches the result.
func runDemo(ctx context.Context, s surroundings, arg object.GVR, own *demoFlags, flags *view.Flags) error {
	c := terminal.NewConsole(s.Streams, flags.Verbose)
	srv := apiservertest.New(apiservertest.Options{Seed: own.seed, BookmarkPeriod: 10 * time.Second})
	defer srv.Close()
	endpoint, err := s.listen(srv)
	if err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	if own.duration > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, own.duration, exit.ErrDuration)
		defer cancel()
		ctx = timed
	}
	work := demo.NewWorkload(srv, own.seed)
	if err := work.Begin(); err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("workload: %w", err)}
	}
	c.State(time.Now(), "%-12s  %s, for as long as this runs", "server", endpoint.URL)
	with, err := demo.NewCompany(s.listenPage)
	if err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	defer with.Close()
	with.Tour(c, endpoint.URL, s.called())

	working, end := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	var failure error
	tasks.Go(func() { failure = work.Run(working, own.rate) })
	if own.faults {
		tasks.Go(func() { (&demo.Saboteur{Server: srv, Console: c}).Run(working) })
	}
	cfg := &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Namespace: flags.Namespace, Logger: c.Logger()}
	err = (&view.Job{Streams: s.Streams, Config: cfg, Arg: arg, Flags: flags, Console: c, Timing: reflector.Timing{Backoff: demoBackoff()}, Company: with}).Run(ctx)
	end()
	tasks.Wait()
	if err == nil && failure != nil {
		err = &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("workload: %w", failure)}
	}
	return err
}
