package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/webhook"
)

// Errors returned by a Manager.
var (
	// ErrStopped means that the manager is stopping or has already stopped.
	ErrStopped = errors.New("the manager has stopped")
	// ErrRunning means that Run has already been called.
	ErrRunning = errors.New("the manager has already run: create another one")
	// ErrNotStopped means that something did not stop within Options.GracefulShutdownTimeout.
	ErrNotStopped = errors.New("not stopped in time")
)

// Manager runs the components of a program. Create it with [New].
type Manager struct {
	*Cluster

	cfg     *config.Config
	opts    Options
	logger  *slog.Logger
	elector *leaderelection.Elector // nil without election
	group   *membership.Group       // nil without sharding
	clients []*rest.Client          // clients created by New, other than the cluster's
	metrics *metrics.Registry
	health  *checks
	ready   *checks

	controllers *controllers
	webhooks    webhooks
	shared      shared

	groups   [groups]*group
	election *group        // has a single task, which participates in the election
	elected  chan struct{} // closed when LeaderElected starts
	failing  chan struct{} // contains a token if something has failed

	mu        sync.Mutex // guards the fields below; no other code is called while it is held
	state     state
	names     map[string]bool
	added     map[Runnable]bool                 // only runnables that can be map keys
	informers map[string]metrics.InformerSource // by cluster name
	caches    []cache
	listeners []*listener // to be opened by Run
	ports     []*listener // open ports whose Run has not been called
	hooks     []*webhook.Server
	events    map[string]*events.Recorder // by controller name
	readiers  []*checked                  // those that are running
	errs      []error
}

// state is a manager's lifecycle state.
type state string

const (
	idle     state = "not started"
	running  state = "running"
	stopping state = "stopping"
)

// New returns a manager that is not running yet. It makes no requests. If the configuration is invalid,
// the error explains what to change.
func New(cfg *config.Config, opts Options) (*Manager, error) {
	registry := metrics.NewRegistry()
	cfg = own(cfg, registry, opts.Logger)
	opts.LeaderElectionConfig = own(opts.LeaderElectionConfig, registry, opts.Logger)
	opts, err := opts.withDefaults(cfg)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	cluster, err := NewCluster(cfg, ClusterOptions{
		Scheme: opts.Scheme, Factory: opts.Factory, Namespaces: opts.Namespaces, SyncPeriod: opts.SyncPeriod,
		NewClient: opts.NewClient, NewCache: opts.NewCache, Logger: opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	m := &Manager{
		Cluster: cluster, cfg: cfg, opts: opts, logger: opts.Logger,
		metrics: registry, controllers: &controllers{MetricsProvider: registry.Controllers()},
		health:  newChecks("/healthz", opts.Logger),
		ready:   newChecks("/readyz", opts.Logger),
		elected: make(chan struct{}), failing: make(chan struct{}, 1),
		state: idle, names: map[string]bool{}, added: map[Runnable]bool{}, informers: map[string]metrics.InformerSource{},
		events: map[string]*events.Recorder{},
	}
	for n := range m.groups {
		m.groups[n] = newGroup(m.fail)
	}
	m.election = newGroup(m.fail)
	for name, check := range map[string]Check{"manager": m.checkState, "warm-up": m.checkWarm, "runnables": m.checkRunnables} {
		if err := m.ready.add(name, check); err != nil {
			return nil, fmt.Errorf("manager: %w", err)
		}
	}
	m.ready.named["runnables"].slow = m.slow
	if err := m.health.add("ping", Ping); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := m.add(Caches, cluster); err != nil {
		return nil, err
	}
	if err := m.addElection(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := m.addSharding(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := m.addServers(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	return m, nil
}

// Config returns a copy of the configuration for the program's other clients: their requests are counted in the
// manager's metrics, and they use its logger.
func (m *Manager) Config() *config.Config { return m.cfg.Clone() }

// own returns a copy of cfg for the manager's own clients, with request metrics and the manager's logger
// added.
func own(cfg *config.Config, registry *metrics.Registry, logger *slog.Logger) *config.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
	if cfg.Logger == nil {
		cfg.Logger = logger
	}
	wrap := cfg.WrapTransport
	cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		if wrap != nil {
			next = wrap(next)
		}
		if next == nil {
			return nil // rest.NewClient rejects it
		}
		return registry.Requests(next)
	}
	return cfg
}

// addElection creates the elector. The elector has its own client, so that renewals never queue behind
// other requests.
func (m *Manager) addElection() error {
	if m.opts.LeaderElection == nil {
		return nil
	}
	leases := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(leases); err != nil {
		return err
	}
	client, err := rest.NewClient(m.opts.LeaderElectionConfig, leases)
	if err != nil {
		return err
	}
	m.clients = append(m.clients, client)
	if m.elector, err = leaderelection.New(client, *m.opts.LeaderElection); err != nil {
		return err
	}
	if err := m.health.add("leader-election", m.checkElection); err != nil {
		return err
	}
	return m.metrics.Register(metrics.NewElections(m.elector))
}

// AddHealthzCheck adds a check to /healthz. If it fails, the process should be restarted.
func (m *Manager) AddHealthzCheck(name string, check Check) error { return m.health.add(name, check) }

// AddReadyzCheck adds a check to /readyz. If it fails, the process should not receive traffic.
func (m *Manager) AddReadyzCheck(name string, check Check) error { return m.ready.add(name, check) }

// Metrics returns the registry served at /metrics. It already counts requests made by the manager's own
// clients. You can register your own collectors in it, and use its WorkQueues for your own queues and its
// Requests in the configuration of other clients.
func (m *Manager) Metrics() *metrics.Registry { return m.metrics }

// ControllerOptions returns options for a controller run by this manager. The controller's and its queue's
// metrics are added to Metrics, and its status is included in Report. The controller logs to Logger,
// records to the flight recorder in Options.Factory, and resyncs every SyncPeriod. To disable resyncs, set
// Resync to 0.
func (m *Manager) ControllerOptions() controller.Options {
	return controller.Options{
		Metrics: m.controllers, QueueMetrics: m.metrics.WorkQueues(),
		Resync: m.Cluster.syncPeriod, Logger: m.logger, Flight: m.opts.Factory.Flight,
	}
}

// WebhookOptions returns options for a webhook server run by this manager. Its metrics are added to
// Metrics, and it logs panics and rejected requests to Logger. The caller must add the certificate.
func (m *Manager) WebhookOptions() webhook.Options {
	return webhook.Options{Metrics: m.metrics.Webhooks(), Logger: m.logger}
}

// Logger returns the configured logger, or one that discards everything. It is never nil.
func (m *Manager) Logger() *slog.Logger { return m.logger }

// Elected returns a channel that is closed when LeaderElected starts: when this process becomes the
// leader, or at startup if there is no election.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// fail records an error and stops the manager.
func (m *Manager) fail(err error) {
	if p, ok := errors.AsType[*failure.PanicError](err); ok {
		m.logger.Error("a runnable panicked", "err", err, "stack", string(p.Stack))
	}
	m.mu.Lock()
	m.errs = append(m.errs, err)
	m.mu.Unlock()
	select {
	case m.failing <- struct{}{}:
	default: // already stopping
	}
}

// failures returns all errors recorded so far.
func (m *Manager) failures() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.errs)
}
