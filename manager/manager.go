package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
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
	metrics *metrics.Registry
	health  *checks
	ready   *checks

	controllers *controllers

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
	listeners []listener
	hooks     []*webhook.Server
	readiers  []*Readier // those whose Run has been called and has not returned
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
	cfg = counted(cfg, registry)
	opts, err := opts.withDefaults(cfg)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	own, err := NewCluster(cfg, ClusterOptions{
		Scheme: opts.Scheme, Factory: opts.Factory, Namespaces: opts.Namespaces, SyncPeriod: opts.SyncPeriod,
		NewClient: opts.NewClient, NewCache: opts.NewCache, Logger: opts.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	m := &Manager{
		Cluster: own, cfg: cfg, opts: opts, logger: opts.Logger,
		metrics: registry, controllers: &controllers{Metrics: registry.Controllers()},
		health:  newChecks("/healthz", opts.Logger),
		ready:   newChecks("/readyz", opts.Logger),
		elected: make(chan struct{}), failing: make(chan struct{}, 1),
		state: idle, names: map[string]bool{}, added: map[Runnable]bool{}, informers: map[string]metrics.InformerSource{},
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
	if err := m.health.add("ping", Ping); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := m.add(Caches, own); err != nil {
		return nil, err
	}
	if err := m.addElection(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := m.addServers(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	return m, nil
}

// counted is cfg for clients whose requests are in the metrics.
func counted(cfg *config.Config, registry *metrics.Registry) *config.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
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
	if m.elector, err = leaderelection.New(client, *m.opts.LeaderElection); err != nil {
		return err
	}
	if err := m.health.add("leader-election", m.checkElection); err != nil {
		return err
	}
	return m.metrics.Register(metrics.NewElections(m.elector))
}

// Add lets r run as a part of the program: where r itself says
// (LeaderElectionRunnable), clusters in Caches, servers in Servers, recorders of
// events before all that may record some, and all others in LeaderElected. If the
// group has started, r starts at once.
//
// It fails where r was added before or another runnable has its name, and with
// ErrStopped when the group stops.
func (m *Manager) Add(r Runnable) error {
	if r == nil {
		panic(failure.Place(1) + ": the runnable is nil")
	}
	return m.add(groupOf(r), r)
}

// AddTo is Add to a group of the caller's choice.
func (m *Manager) AddTo(group Group, r Runnable) error {
	if r == nil {
		panic(failure.Place(1) + ": the runnable is nil")
	}
	if group == recorders {
		return fmt.Errorf("add %T: there is no Group(%d)", r, int(group))
	}
	return m.add(group, r)
}

func (m *Manager) add(group Group, r Runnable) error {
	name, unique := nameOf(r)
	if group < Servers || group > LeaderElected || group == warmUps {
		return fmt.Errorf("add %s: there is no %v", name, group)
	}
	if err := m.once(r); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if cluster, ok := r.(*Cluster); ok {
		if err := m.addCluster(cluster); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	} else if hooks, ok := r.(*webhook.Server); ok {
		var err error
		if name, err = m.addWebhooks(hooks); err != nil { // the API server must not send us anything before
			return fmt.Errorf("add %s: %w", name, err)
		}
	} else if unique {
		if err := m.claim(name); err != nil {
			return fmt.Errorf("add: %w", err)
		}
	}
	if l, ok := r.(listener); ok {
		if err := m.addListener(l); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	if c, ok := r.(cache); ok && group == Caches {
		m.mu.Lock()
		m.caches = append(m.caches, c)
		m.mu.Unlock()
	}
	run := r.Run
	if ready, ok := r.(Readier); ok {
		run = m.watched(ready)
	}
	if w, ok := r.(Warmer); ok && group >= Others {
		warm := make(chan struct{})
		if err := m.groups[warmUps].add(warmUp(name, w, warm)); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
		run = afterWarmUp(run, warm)
	} else if _, ok := r.(Readier); !ok && group >= Others {
		run = m.afterCaches(name, run)
	}
	if err := m.groups[group].add(task{name, run}); err != nil {
		if l, ok := r.(listener); ok {
			err = errors.Join(err, l.Close())
		}
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

// addWebhooks lets /readyz ask a webhook server, and returns the name for it: a
// second server of one name gets a number.
func (m *Manager) addWebhooks(hooks *webhook.Server) (name string, err error) {
	name, check := hooks.Name(), "webhooks"
	m.mu.Lock()
	if slices.Contains(m.hooks, hooks) {
		m.mu.Unlock()
		return name, errors.New("it was added already")
	}
	m.hooks = append(m.hooks, hooks)
	if n := len(m.hooks); n > 1 {
		check = fmt.Sprintf("%s-%d", check, n)
		if m.names[name] {
			name = fmt.Sprintf("%s %d", name, n)
		}
	}
	m.mu.Unlock()
	if err := m.claim(name); err != nil {
		return name, err
	}
	return name, m.ready.add(check, func(*http.Request) error { return hooks.Check() })
}

// once makes sure that a runnable which has no name is not run twice at a time. Where
// there is a name, claim says more. Only pointers can be told apart.
func (m *Manager) once(r Runnable) error {
	_, unique := nameOf(r)
	if t := reflect.TypeOf(r); unique || t.Kind() != reflect.Pointer || t.Elem().Size() == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.added[r] {
		return errors.New("it was added before")
	}
	m.added[r] = true
	return nil
}

// claim makes sure that a name occurs once.
func (m *Manager) claim(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] {
		return fmt.Errorf("two runnables are named %q: give one of them another name", name)
	}
	m.names[name] = true
	return nil
}

// addCluster makes a cluster's informers visible. Add runs them.
func (m *Manager) addCluster(c *Cluster) error {
	if c.name == "" && c != m.Cluster {
		return errors.New("the manager's own cluster has no name, so that others need one: set ClusterOptions.Name")
	}
	if err := m.claim(c.Name()); err != nil {
		return err
	}
	return m.show(c.name, c, c.factory.Unsynced)
}

// AddInformers shows informers that the manager does not run, such as client-go's, like
// those of a cluster of that name: in /metrics, in /debug/status, and in /readyz while
// one has not synced.
func (m *Manager) AddInformers(name string, source metrics.InformerSource) error {
	if name == "" {
		return errors.New("add informers: the manager's own have no name, so that others need one")
	}
	if err := m.claim("cluster " + name); err != nil {
		return fmt.Errorf("add informers: %w", err)
	}
	return m.show(name, source, source.Status)
}

// show makes the informers of a cluster visible. /readyz waits for those that
// unsynced returns.
func (m *Manager) show(cluster string, source metrics.InformerSource, unsynced func() []sharedinformer.Status) error {
	if err := m.metrics.AddInformers(cluster, source); err != nil {
		return err
	}
	check := "informers"
	if cluster != "" {
		check += "-" + cluster
	}
	if err := m.ready.add(check, synced(unsynced)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.informers[cluster] = source
	return nil
}

// addListener lets Run open the port, or opens it now if Run has begun.
func (m *Manager) addListener(l listener) error {
	m.mu.Lock()
	later := m.state == idle
	if later {
		m.listeners = append(m.listeners, l)
	}
	m.mu.Unlock()
	if later {
		return nil
	}
	return l.Listen()
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
// and it reconciles every object again each SyncPeriod; set Resync to 0 for never.
func (m *Manager) ControllerOptions() controller.Options {
	return controller.Options{
		Metrics: m.controllers, QueueMetrics: m.metrics.WorkQueues(),
		Resync: m.Cluster.syncPeriod, Logger: m.logger,
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
