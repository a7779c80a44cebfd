// Command controller-manager runs a ReplicaSet and a Deployment controller, like those of
// kube-controller-manager, for a cluster that has neither. Several processes can divide the namespaces
// among themselves (--share).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/examples/controller-manager/controllers"
	"github.com/millrace-dev/millrace/examples/controller-manager/owned"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard/membership"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(manager.SignalContext(), log, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Error("ended", "reason", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log *slog.Logger, args []string) error {
	registry, err := controllers.Registry()
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("controller-manager", flag.ContinueOnError)
	var (
		kubeconfig = flags.String("kubeconfig", "", "the kubeconfig `file`; empty means KUBECONFIG, ~/.kube/config, or the Pod's own")
		chosen     = flags.String("controllers", "*", registry.Usage())
		elect      = flags.Bool("leader-elect", false, "run the controllers in one process at a time, elected with a Lease in the kubeconfig's namespace")
		share      = flags.Bool("share", false, "divide the namespaces among several processes")
		resync     = flags.Duration("min-resync-period", controllermanager.DefaultMinResyncPeriod, "the minimum `time` between resyncs")
		interval   = flags.Duration("controller-start-interval", controllermanager.DefaultStartInterval, "the minimum `time` between controller starts")
		probes     = flags.String("health-probe-bind-address", "", "the `address` for serving /healthz and /readyz; empty means none")
		metrics    = flags.String("metrics-bind-address", "", "the `address` for serving /metrics; empty means none")
		grace      = flags.Duration("graceful-shutdown-timeout", 30*time.Second, "the maximum `time` for a graceful shutdown")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are accepted", flags.Arg(0))
	}
	if *elect && *share {
		return errors.New("--leader-elect and --share are mutually exclusive: remove one")
	}
	cfg, err := config.LoadWith(config.LoadOptions{Kubeconfig: *kubeconfig})
	if err != nil {
		return err
	}
	opts := manager.Options{Logger: log, HealthProbeBindAddress: *probes, MetricsBindAddress: *metrics, GracefulShutdownTimeout: *grace}
	if *elect {
		opts.LeaderElection = &leaderelection.Options{Name: "millrace-controller-manager"}
	}
	if *share {
		opts.Sharding = &membership.Options{Name: "millrace-controller-manager", Layout: owned.Key().String()}
	}
	m, err := manager.New(cfg, opts)
	if err != nil {
		return err
	}
	common := m.ControllerOptions()
	common.Resync = 0 // MinResyncPeriod applies instead
	cm, err := controllermanager.New(registry, m.Factory(), controllermanager.Options{
		Controllers:     *chosen,
		NewClient:       controllermanager.Clients(m.Config(), m.Scheme()),
		Shard:           m.Shard,
		MinResyncPeriod: *resync,
		StartInterval:   *interval,
		Controller:      common,
		Logger:          log,
	})
	if err != nil {
		return err
	}
	if err := m.Add(cm); err != nil {
		return err
	}
	return m.Run(ctx)
}
