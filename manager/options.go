package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/webhook"
)

// Options configure a Manager. The zero value works: it serves nothing and
// takes part in no election.
type Options struct {
	// Scheme, Factory, Namespaces, SyncPeriod, NewClient and NewCache are those of
	// the manager's own cluster; see ClusterOptions.
	Scheme     *runtime.Scheme
	Factory    factory.Options
	Namespaces []string
	SyncPeriod time.Duration
	NewClient  func(*config.Config, *runtime.Scheme) (*rest.Client, error)
	NewCache   func(*rest.Client, factory.Options) (*factory.Factory, error)

	// Logger hears of everything. Nil is silent.
	Logger *slog.Logger

	// LeaderElection, if not nil, lets what belongs to LeaderElected run in one
	// process at a time. An empty Namespace means that of the configuration.
	LeaderElection *leaderelection.Options

	// LeaderElectionConfig is where the Lease is, if not in the manager's own
	// cluster.
	LeaderElectionConfig *config.Config

	// Sharding, if not nil, lets the processes of a group share the work, by Leases: Sharded of a
	// builder, or Shard, gives each of them its part of a kind. It is experimental. Controllers of what is shared run in every
	// process, whether it leads or not. An empty Namespace means that of the configuration.
	Sharding *membership.Options

	// Webhooks configure the server of WebhookFor, mostly its certificate. Nil Metrics and a nil Logger
	// are those of the manager. Nothing is served before WebhookFor or WebhookServer is called.
	Webhooks webhook.Options

	// MetricsBindAddress is where /metrics is served, such as ":8080". Empty or
	// "0" means nowhere. At the loopback interface serving.Local keeps web pages out.
	MetricsBindAddress string

	// MetricsTLS makes that HTTPS.
	MetricsTLS *serving.TLS

	// MetricsAccess lets the API server decide who may read them, by bearer
	// token; see serving.Access. It needs MetricsTLS.
	MetricsAccess bool

	// HealthProbeBindAddress is where /healthz and /readyz are served, such as
	// ":8081". Empty or "0" means nowhere. Anybody may ask, so the answers name the
	// checks that fail and not the reasons: those are in the log, and in the same
	// paths at PprofBindAddress.
	HealthProbeBindAddress string

	// PprofBindAddress is where /debug/pprof/, /debug/status and debug.Path are
	// served, and the probes with their reasons.
	// Without a host, such as in ":6060", it means the loopback interface, where
	// serving.Local keeps web pages out. At any other interface it is protected as the
	// metrics are, by MetricsTLS and MetricsAccess. A web page of another origin may lead
	// to the page at debug.Path alone. Empty or "0" means nowhere.
	PprofBindAddress string

	// DebugContents shows whole cached objects at PprofBindAddress, but for Secrets, and
	// not their heads alone; see debug.Options. At an interface that is not loopback it
	// needs MetricsAccess.
	DebugContents bool

	// GracefulShutdownTimeout is how long everything together may take to stop.
	// Default 30 s; negative means without end.
	GracefulShutdownTimeout time.Duration

	// WarmupTimeout is how long a process that is not warm, since its caches
	// are not synced or a warm-up has not returned, stays away from the
	// election: others may be. Default 30 s.
	WarmupTimeout time.Duration
}

// served reports whether an address means somewhere.
func served(address string) bool { return address != "" && address != "0" }

// outside reports whether others than programs of this machine can come to an address.
// ":6060" of PprofBindAddress is made one of the loopback interface.
func outside(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.EqualFold(host, "localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

// withDefaults fills in what was left zero, and reports every contradiction
// with what to change.
func (o Options) withDefaults(cfg *config.Config) (Options, error) {
	var errs []error
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.GracefulShutdownTimeout == 0 {
		o.GracefulShutdownTimeout = 30 * time.Second
	}
	switch {
	case o.WarmupTimeout < 0:
		errs = append(errs, fmt.Errorf("WarmupTimeout is %s: want a positive duration, or 0 for 30s", o.WarmupTimeout))
	case o.WarmupTimeout == 0:
		o.WarmupTimeout = 30 * time.Second
	}
	if !served(o.MetricsBindAddress) && !outside(o.PprofBindAddress) && (o.MetricsTLS != nil || o.MetricsAccess) {
		errs = append(errs, errors.New("MetricsTLS or MetricsAccess without metrics: set MetricsBindAddress"))
	}
	if !served(o.PprofBindAddress) && o.DebugContents {
		errs = append(errs, errors.New("DebugContents without a place to show them: set PprofBindAddress"))
	}
	if o.MetricsAccess && o.MetricsTLS == nil {
		errs = append(errs, errors.New("MetricsAccess without MetricsTLS: tokens would be sent in the clear; set MetricsTLS, &serving.TLS{} will do"))
	}
	if o.DebugContents && outside(o.PprofBindAddress) && !o.MetricsAccess {
		errs = append(errs, fmt.Errorf("DebugContents at %s, where anybody could read all that is cached: set MetricsAccess and MetricsTLS, or give PprofBindAddress no host", o.PprofBindAddress))
	}
	if served(o.PprofBindAddress) {
		if host, port, err := net.SplitHostPort(o.PprofBindAddress); err == nil && host == "" {
			o.PprofBindAddress = net.JoinHostPort("127.0.0.1", port)
		}
	}
	seen := map[string]string{}
	for _, a := range []struct{ name, address string }{
		{"MetricsBindAddress", o.MetricsBindAddress},
		{"HealthProbeBindAddress", o.HealthProbeBindAddress},
		{"PprofBindAddress", o.PprofBindAddress},
	} {
		_, port, err := net.SplitHostPort(a.address)
		if err != nil || port == "0" {
			continue
		}
		if other, taken := seen[a.address]; taken {
			errs = append(errs, fmt.Errorf("%s and %s are both %q: give each a port of its own", other, a.name, a.address))
		}
		seen[a.address] = a.name
	}
	if o.LeaderElection == nil && o.LeaderElectionConfig != nil {
		errs = append(errs, errors.New("LeaderElectionConfig without LeaderElection: set both, or none"))
	}
	if o.LeaderElection != nil {
		election := *o.LeaderElection
		if o.LeaderElectionConfig == nil {
			o.LeaderElectionConfig = cfg
		}
		if election.Namespace == "" && o.LeaderElectionConfig != nil {
			election.Namespace = o.LeaderElectionConfig.Namespace
		}
		if election.Logger == nil {
			election.Logger = o.Logger
		}
		o.LeaderElection = &election
	}
	if o.Sharding != nil {
		sharding := *o.Sharding
		if sharding.Namespace == "" && cfg != nil {
			sharding.Namespace = cfg.Namespace
		}
		if sharding.Logger == nil {
			sharding.Logger = o.Logger
		}
		o.Sharding = &sharding
	}
	return o, errors.Join(errs...)
}
