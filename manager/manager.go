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

// Errors of the life of a manager.
var (
	// ErrStopped: the manager is stopping, or has stopped.
	ErrStopped = errors.New("the manager has stopped")
	// ErrRunning: Run was called before.
	ErrRunning = errors.New("the manager has run: make another one")
	// ErrNotStopped: something did not stop in time.
	ErrNotStopped = errors.New("not stopped in time")
)

// Manager runs the parts of a program together. Make it with New.
type Manager struct {
	*Cluster

	cfg     *config.Config
	opts    Options
	logger  *slog.Logger
	elector *leaderelection.Elector // nil without election
	group   *membership.Group       // nil without sharding
	clients []*rest.Client          // that New has made, beside the cluster's
	metrics *metrics.Registry
	health  *checks
	ready   *checks

	controllers *controllers
	webhooks    webhooks
	shared      shared

	groups   [groups]*group
	election *group        // of the one task that takes part in it
	elected  chan struct{} // closed when LeaderElected is opened
	failing  chan struct{} // a token: something has failed

	mu        sync.Mutex // guards all below; nothing is called while it is held
	state     state
	names     map[string]bool
	added     map[Runnable]bool                 // those that can be told apart
	informers map[string]metrics.InformerSource // by the name of their cluster
	caches    []cache
	listeners []*listener // to be opened by Run
	ports     []*listener // that are open, and whose Run has not been called
	hooks     []*webhook.Server
	events    map[string]*events.Recorder // by the name of their controller
	readiers  []*Readier                  // those whose Run has been called and has not returned
	errs      []error
}

// state is where a manager is in its life.
type state string

const (
	idle     state = "not started"
	running  state = "running"
	stopping state = "stopping"
)

// New returns a manager that does not run. It sends nothing. A bad
// configuration is an error that says what to change.
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

// own is cfg for clients of the manager's own: their requests are in the metrics, and
// they log where it does.
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
			return nil // which the client complains of
		}
		return registry.Requests(next)
	}
	return cfg
}

// addElection makes the elector. It has a client of its own, so that a renewal
// never waits behind other requests.
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

// AddHealthzCheck adds a question to /healthz: should the process go on living?
func (m *Manager) AddHealthzCheck(name string, check Check) error { return m.health.add(name, check) }

// AddReadyzCheck adds a question to /readyz: may others rely on us?
func (m *Manager) AddReadyzCheck(name string, check Check) error { return m.ready.add(name, check) }

// Metrics is what /metrics shows, the requests of the manager's own clients included.
// Register collectors of your own with it, and give its WorkQueues to the queues that
// are made and its Requests to the configurations of other clients.
func (m *Manager) Metrics() *metrics.Registry { return m.metrics }

// ControllerOptions are options for a controller of this manager: its metrics and
// those of its queue are in Metrics, its status in Report, its failures go to Logger,
// its events to the flight recorder of Options.Factory, and it reconciles every object
// again each SyncPeriod; set Resync to 0 for never.
func (m *Manager) ControllerOptions() controller.Options {
	return controller.Options{
		Metrics: m.controllers, QueueMetrics: m.metrics.WorkQueues(),
		Resync: m.Cluster.syncPeriod, Logger: m.logger, Flight: m.opts.Factory.Flight,
	}
}

// WebhookOptions are options for a webhook server of this manager: its metrics are in
// Metrics, and its panics and refusals go to Logger. Only its certificate is left to
// say.
func (m *Manager) WebhookOptions() webhook.Options {
	return webhook.Options{Metrics: m.metrics.Webhooks(), Logger: m.logger}
}

// Logger is that of the options; never nil.
func (m *Manager) Logger() *slog.Logger { return m.logger }

// Elected returns a channel that is closed when LeaderElected starts: as soon as we
// lead, or at the start if there is no election.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// fail notes an error and ends the program.
func (m *Manager) fail(err error) {
	if p, ok := errors.AsType[*failure.PanicError](err); ok {
		m.logger.Error("a runnable panicked", "err", err, "stack", string(p.Stack))
	}
	m.mu.Lock()
	m.errs = append(m.errs, err)
	m.mu.Unlock()
	select {
	case m.failing <- struct{}{}:
	default: // it is ending already
	}
}

// failures returns all errors so far.
func (m *Manager) failures() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.errs)
}
