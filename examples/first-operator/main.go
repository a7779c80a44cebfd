// Command sandbox is an operator that gives people namespaces for a limited time.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"example.com/sandbox/api/v1"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/webhook"
)

// flags contains the command-line flags.
type flags struct {
	elect                             bool
	metrics, probes, webhook, certDir string
}

func main() {
	var f flags
	flag.BoolVar(&f.elect, "leader-elect", false, "run one replica at a time, with the others ready to take over")
	flag.StringVar(&f.metrics, "metrics-address", "127.0.0.1:8080", "where to serve /metrics; 0 disables it")
	flag.StringVar(&f.probes, "probe-address", "127.0.0.1:8081", "where to serve /healthz and /readyz; 0 disables them")
	flag.StringVar(&f.webhook, "webhook-address", ":9443", "where to serve the webhook if there is a certificate")
	flag.StringVar(&f.certDir, "cert-dir", "", "directory with the webhook's tls.crt and tls.key; by default, there is no webhook")
	flag.Parse()

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg, err := config.Load() // KUBECONFIG, ~/.kube/config or in-cluster
	if err == nil {
		err = run(manager.SignalContext(), cfg, f, log)
	}
	if err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg *config.Config, f flags, log *slog.Logger) error {
	kinds := scheme.New()
	if err := v1.AddToScheme(kinds); err != nil {
		return err
	}
	opts := manager.Options{
		Scheme: kinds, Logger: log, MetricsBindAddress: f.metrics, HealthProbeBindAddress: f.probes,
		Webhooks: webhook.Options{Address: f.webhook, CertDir: f.certDir},
	}
	if f.elect {
		opts.LeaderElection = &leaderelection.Options{Name: "sandbox"}
	}
	m, err := manager.New(cfg, opts)
	if err != nil {
		return err
	}
	if err := addController(m); err != nil {
		return err
	}
	if f.certDir != "" {
		if err := manager.WebhookFor[*v1.Sandbox](m).Validate(validate).Complete(); err != nil {
			return err
		}
	}
	return m.Run(ctx)
}
