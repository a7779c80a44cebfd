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

// Options configure a Manager. With the zero value, the manager serves nothing and uses no leader election.
type Options struct {
	// Scheme, Factory, Namespaces, SyncPeriod, NewClient and NewCache configure the manager's own
	// cluster; see [ClusterOptions].
	Scheme     *runtime.Scheme
	Factory    factory.Options
	Namespaces []string
	SyncPeriod time.Duration
	NewClient  func(*config.Config, *runtime.Scheme) (*rest.Client, error)
	NewCache   func(*rest.Client, factory.Options) (*factory.Factory, error)

	// Logger receives all log messages. If it is nil, they are discarded.
	Logger *slog.Logger

	// LeaderElection, if not nil, limits LeaderElected to one process at a time. An empty Namespace
	// defaults to the configuration's namespace.
	LeaderElection *leaderelection.Options

	// LeaderElectionConfig is the configuration for the cluster that contains the Lease, if it is not the
	// manager's own.
	LeaderElectionConfig *config.Config

	// Sharding, if not nil, uses Leases to divide the work among a group of processes: with
	// [Builder.Sharded] or [Manager.Shard], each process handles its share of a kind's objects. Controllers
	// for sharded kinds run in every process, whether or not it is the leader. An empty Namespace defaults
	// to the configuration's namespace. Sharding is experimental.
	Sharding *membership.Options

	// Webhooks configures the server used by [WebhookFor], in particular its certificate. Nil Metrics
	// and Logger are replaced by the manager's. The server starts only if WebhookFor or WebhookServer
	// is called.
	Webhooks webhook.Options

	// MetricsBindAddress is the address that serves /metrics, such as ":8080". If empty or "0", metrics are
	// not served. On the loopback interface, serving.Local rejects requests from web pages.
	MetricsBindAddress string

	// MetricsTLS enables HTTPS for metrics.
	MetricsTLS *serving.TLS

	// MetricsAccess makes the API server decide which clients may read metrics, based on their bearer
	// tokens; see serving.Access. It requires MetricsTLS.
	MetricsAccess bool

	// HealthProbeBindAddress is the address that serves /healthz and /readyz, such as ":8081". If empty or
	// "0", probes are not served. Anyone can access this port, so responses list failing checks without
	// reasons. The reasons are logged, and the probes at PprofBindAddress include them.
	HealthProbeBindAddress string

	// PprofBindAddress is the address that serves /debug/pprof/, /debug/status, debug.Path, and the probes
	// with reasons. If empty or "0", they are not served. An address without a host, such as ":6060", means
	// the loopback interface, where serving.Local rejects requests from web pages. On other interfaces,
	// MetricsTLS and MetricsAccess protect these pages like metrics. Web pages from other origins may link
	// only to debug.Path.
	PprofBindAddress string

	// DebugContents shows whole cached objects at PprofBindAddress, except Secrets, instead of only their
	// heads; see debug.Options. On non-loopback interfaces it requires MetricsAccess.
	DebugContents bool

	// GracefulShutdownTimeout is how long the whole program may take to stop. The default is 30 s; a
	// negative value means no limit.
	GracefulShutdownTimeout time.Duration

	// WarmupTimeout limits how long a process stays out of the election because its caches are unsynced or
	// its warm-ups unfinished. It stays out because another process may be ready. The default is 30 s.
	WarmupTimeout time.Duration
}

// served reports whether an address is set.
func served(address string) bool { return address != "" && address != "0" }

// outside reports whether an address is reachable from other machines. It returns false for an address
// without a host, because withDefaults sets that to loopback.
func outside(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.EqualFold(host, "localhost") {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

// withDefaults returns o with defaults filled in, or an error that lists all invalid options.
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
		errs = append(errs, errors.New("DebugContents without a debug server: set PprofBindAddress"))
	}
	if o.MetricsAccess && o.MetricsTLS == nil {
		errs = append(errs, errors.New("MetricsAccess without MetricsTLS: tokens would be sent in the clear; set MetricsTLS, for example to &serving.TLS{}"))
	}
	if o.DebugContents && outside(o.PprofBindAddress) && !o.MetricsAccess {
		errs = append(errs, fmt.Errorf("DebugContents at %s, where anyone could read the whole cache: set MetricsAccess and MetricsTLS, or remove the host from PprofBindAddress", o.PprofBindAddress))
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
			errs = append(errs, fmt.Errorf("%s and %s are both %q: give each its own port", other, a.name, a.address))
		}
		seen[a.address] = a.name
	}
	if o.LeaderElection == nil && o.LeaderElectionConfig != nil {
		errs = append(errs, errors.New("LeaderElectionConfig without LeaderElection: set both or neither"))
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
