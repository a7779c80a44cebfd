// Command memcached is an operator that runs memcached clusters as described by Memcached objects. See
// README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"

	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/webhook"
)

// flags contains the command-line flags.
type flags struct {
	install, elect, share                     bool
	metrics, probes, debug, webhooks, certDir string
}

func main() {
	var f flags
	flag.BoolVar(&f.install, "install", false, "first install the Memcached CRD, and let an API server on this machine call the webhook")
	flag.BoolVar(&f.elect, "leader-elect", false, "run one replica at a time, with the others ready to take over")
	flag.BoolVar(&f.share, "share", false, "divide the objects among all replicas")
	flag.StringVar(&f.metrics, "metrics-address", "127.0.0.1:8080", "where to serve /metrics; 0 disables it")
	flag.StringVar(&f.probes, "probe-address", "127.0.0.1:8081", "where to serve /healthz and /readyz; 0 disables them")
	flag.StringVar(&f.debug, "debug-address", "127.0.0.1:6060", "where informer-debug --attach can connect; 0 disables it")
	flag.StringVar(&f.webhooks, "webhook-address", "127.0.0.1:9443", "where to serve the webhook")
	flag.StringVar(&f.certDir, "cert-dir", "", "directory with the webhook's tls.crt and tls.key; by default, a certificate is generated")
	flag.Parse()

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(manager.SignalContext(), f, log); err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags, log *slog.Logger) error {
	if f.install && f.certDir != "" {
		return errors.New("--install and --cert-dir are mutually exclusive, because --install registers a generated certificate: remove one")
	}
	cfg, err := config.Load()
	if err != nil {
		return err
	}
	kinds := scheme.New()
	if err := v1.AddToScheme(kinds); err != nil {
		return err
	}
	opts := manager.Options{
		Scheme: kinds, Logger: log,
		MetricsBindAddress: f.metrics, HealthProbeBindAddress: f.probes, PprofBindAddress: f.debug,
		Webhooks: webhook.Options{Address: f.webhooks, CertDir: f.certDir},
	}
	if f.certDir == "" {
		opts.Webhooks.TLS = &serving.TLS{}
	}
	if f.elect {
		opts.LeaderElection = &leaderelection.Options{Name: "memcached-operator"}
	}
	if f.share {
		opts.Sharding = &membership.Options{Name: "memcached-operator"}
	}
	m, err := manager.New(cfg, opts)
	if err != nil {
		return err
	}
	if err := addController(m); err != nil {
		return err
	}
	if err := manager.WebhookFor[*v1.Memcached](m).Validate(validate).Complete(); err != nil {
		return err
	}
	if f.install {
		if err := install(ctx, m); err != nil {
			return err
		}
	}
	return m.Run(ctx)
}
