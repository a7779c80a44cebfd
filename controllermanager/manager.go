package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/shard"
)

// Errors returned by [Manager].
var (
	// ErrRunning means that Run was called while another call was running.
	ErrRunning = errors.New("the controllers are already running")
	// ErrStarting means that not all controllers have been started yet.
	ErrStarting = errors.New("controllers are being started")
)

// The minimum and maximum delay between discovery attempts.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
)

// Manager runs the controllers selected from a registry, provided that their resources are served. It is a
// manager.Runnable: add it to a manager.Manager for leader election and probes. Create it with [New].
type Manager struct {
	registry *Registry
	factory  *factory.Factory
	opts     Options
	enabled  []string
	share    shard.Share // nil without sharding

	mu      sync.Mutex // guards the fields below; no other code is called while it is held
	running bool
	state   map[string]*member
	waiting error // why some controllers have not started; nil if all of them have
}

// New returns a manager that uses f's informers. It does not start them; a manager.Cluster does. New
// fails if the options are invalid or contain unknown controllers.
func New(registry *Registry, f *factory.Factory, opts Options) (*Manager, error) {
	switch {
	case registry == nil:
		return nil, errors.New("controller manager: the registry is nil: create one with NewRegistry")
	case f == nil:
		return nil, errors.New("controller manager: the factory is nil: create one with factory.New, or use a manager's")
	}
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("controller manager: %w", err)
	}
	enabled, err := registry.Select(opts.Controllers)
	if err != nil {
		return nil, err
	}
	share, err := opts.share()
	if err != nil {
		return nil, fmt.Errorf("controller manager: %w", err)
	}
	m := &Manager{registry: registry, factory: f, opts: opts, enabled: enabled, share: share}
	m.reset()
	return m, nil
}

// Name returns Options.Name.
func (m *Manager) Name() string { return m.opts.Name }

// Share returns this process's share of the work, or nil without sharding. A manager.Manager runs a
// runnable with a share whether or not it is the leader.
func (m *Manager) Share() shard.Share { return m.share }

// Run creates and starts the controllers, and returns once all of them have returned. It returns nil if ctx
// is done, and otherwise all errors, each with its controller's name. Run may be called again after it has
// returned.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.running {
		m.mu.Unlock()
		return ErrRunning
	}
	m.running = true
	m.mu.Unlock()
	m.reset()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.running, m.waiting = false, ErrStarting
	}()
	return newRound(ctx, m).run()
}

// Unfinished lists slow reconciles and reconciles that keep Run from returning, each with its
// controller; see [controller.Controller.Unfinished].
func (m *Manager) Unfinished() (all []string) {
	for _, c := range m.runningMembers() {
		u, ok := c.run.(interface{ Unfinished() []string })
		if !ok {
			continue
		}
		for _, left := range u.Unfinished() {
			all = append(all, c.Name+": "+left)
		}
	}
	return all
}

// Controllers returns the running controllers, in registry order. A manager.Manager includes them in its Report
// and its debug pages.
func (m *Manager) Controllers() (all []controller.View) {
	for _, c := range m.runningMembers() {
		if view, ok := c.run.(controller.View); ok {
			all = append(all, view)
		}
	}
	return all
}

// runningMembers returns the running controllers, in registry order.
func (m *Manager) runningMembers() (members []*member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.registry.Names() {
		if c := m.state[name]; c.State == Running {
			members = append(members, c)
		}
	}
	return members
}

// Ready returns nil if every controller that should be running is running and ready.
func (m *Manager) Ready() error {
	m.mu.Lock()
	errs := []error{m.waiting}
	m.mu.Unlock()
	for _, c := range m.runningMembers() {
		if r, ok := c.run.(manager.Readier); ok {
			if err := r.Ready(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Status returns the status of every controller, in registry order.
func (m *Manager) Status() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Status
	for _, name := range m.registry.Names() {
		all = append(all, m.state[name].Status)
	}
	return all
}

// reset prepares for a new run.
func (m *Manager) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.waiting = map[string]*member{}, ErrStarting
	for _, d := range m.registry.descriptors {
		s := Status{Name: d.Name}
		if !slices.Contains(m.enabled, d.Name) {
			s.State, s.Reason = Disabled, "not chosen"
			if d.DisabledByDefault {
				s.Reason = "disabled by default, and not chosen"
			}
		}
		m.state[d.Name] = &member{Status: s}
	}
}

// set sets a controller's state, and logs it if it has changed.
func (m *Manager) set(name string, s State, reason string) {
	m.mu.Lock()
	before := m.state[name].Status
	m.state[name].State, m.state[name].Reason = s, reason
	m.mu.Unlock()
	if s == Skipped && before.State == s && before.Reason == reason {
		return
	}
	log := m.opts.Logger.With("controller", name)
	switch {
	case s == Skipped:
		log.Warn("controller skipped", "reason", reason)
	case reason != "":
		log.Info("controller "+s.String(), "reason", reason)
	default:
		log.Info("controller " + s.String())
	}
}

// discover retries discovery until it succeeds or ctx is done.
func (m *Manager) discover(ctx context.Context) (Resources, error) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		served, err := discover(ctx, m.factory.Client().Mapper())
		if err == nil {
			return served, nil
		}
		m.mu.Lock()
		m.waiting = fmt.Errorf("%w: %w", ErrStarting, err)
		m.mu.Unlock()
		if ctx.Err() == nil {
			m.opts.Logger.Warn("controllers are waiting", "reason", err)
		}
		if !sleep(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// failed records why a controller is not running, and returns the reason as an error.
func (m *Manager) failed(name string, err error) error {
	m.set(name, Ended, err.Error())
	return fmt.Errorf("%s: %w", name, err)
}

// sleep waits for d. It returns false if ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// State is a controller's lifecycle state.
type State uint8

// Controller states.
const (
	// Pending means that the controller has not been created or started yet.
	Pending State = iota
	// Disabled means that the controller was not selected.
	Disabled
	// Skipped means that the server does not serve the resources the controller requires. Discovery is
	// repeated every Options.DiscoveryInterval.
	Skipped
	// Declined means that the descriptor's New returned nothing to run.
	Declined
	// Running means that the controller's Run has been called.
	Running
	// Ended means that the controller's Run has returned.
	Ended
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Disabled:
		return "disabled"
	case Skipped:
		return "skipped"
	case Declined:
		return "declined"
	case Running:
		return "running"
	case Ended:
		return "ended"
	}
	return "unknown"
}

// MarshalText encodes the state as its name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Status is the status of one controller.
type Status struct {
	Name   string
	State  State
	Reason string // why the controller is not running or has failed; otherwise empty
}
