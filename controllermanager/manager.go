package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
)

// Errors of the life of a Manager.
var (
	// ErrRunning: Run was called while it runs.
	ErrRunning = errors.New("the controllers run already")
	// ErrStarting: not every controller has been started.
	ErrStarting = errors.New("controllers are being started")
)

// The pauses between two attempts to find out what the server serves.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
)

// Manager runs the controllers of a registry that are chosen and possible. It is a
// manager.Runnable, to be added to a manager.Manager for election and probes. Make it
// with New.
type Manager struct {
	registry *Registry
	factory  *factory.Factory
	opts     Options
	enabled  []string

	mu      sync.Mutex // guards all below; nothing is called while it is held
	running bool
	state   map[string]*member
	waiting error // why not all are started; nil when they are
}

// member is one controller of a run.
type member struct {
	Status
	run manager.Runnable // nil unless it is to run
}

// New returns a manager that does not run, for the informers of f, which must be
// started by somebody else: a manager.Cluster does. It fails where the options make
// no sense or name controllers that the registry has not.
func New(registry *Registry, f *factory.Factory, opts Options) (*Manager, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("controller manager: %w", err)
	}
	enabled, err := registry.Select(opts.Controllers)
	if err != nil {
		return nil, err
	}
	m := &Manager{registry: registry, factory: f, opts: opts, enabled: enabled}
	m.reset()
	return m, nil
}

// Name is "controller manager".
func (m *Manager) Name() string { return "controller manager" }

// Run makes and starts the controllers, and returns when all have returned: nil if
// that was because ctx is done, otherwise every error that there was, with the name
// of the controller. It may be called again when it has returned.
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

	served, err := m.discover(ctx)
	if err != nil {
		return nil // ctx is done
	}
	clients, err := m.build(served)
	defer func() {
		for _, c := range clients {
			c.CloseIdleConnections()
		}
	}()
	if err != nil {
		return err
	}
	return m.start(ctx)
}

// Ready returns nil while every controller that is to run does, and is ready.
func (m *Manager) Ready() error {
	m.mu.Lock()
	errs := []error{m.waiting}
	var members []*member
	for _, name := range m.registry.Names() {
		if c := m.state[name]; c.State == Running {
			members = append(members, c)
		}
	}
	m.mu.Unlock()
	for _, c := range members {
		if r, ok := c.run.(manager.Readier); ok {
			if err := r.Ready(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Status returns every controller of the registry, in its order.
func (m *Manager) Status() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Status
	for _, name := range m.registry.Names() {
		all = append(all, m.state[name].Status)
	}
	return all
}

// reset begins a run.
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

// set changes the state of a controller, and logs it.
func (m *Manager) set(name string, s State, reason string) {
	m.mu.Lock()
	m.state[name].State, m.state[name].Reason = s, reason
	m.mu.Unlock()
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

// discover asks what the server serves until it knows or ctx is done.
func (m *Manager) discover(ctx context.Context) (Resources, error) {
	m.factory.Client().Mapper().Invalidate() // what was found out long ago may have changed
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		served, err := discover(ctx, m.factory.Client().Mapper())
		if err == nil {
			return served, nil
		}
		m.mu.Lock()
		m.waiting = fmt.Errorf("%w: %w", ErrStarting, err)
		m.mu.Unlock()
		if ctx.Err() == nil {
			m.opts.Logger.Warn("controllers wait", "reason", err)
		}
		if !sleep(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// build makes the controllers, and returns the clients that were made for them.
func (m *Manager) build(served Resources) (clients []*rest.Client, err error) {
	started := make(chan struct{})
	defer close(started)
	for _, d := range m.registry.descriptors {
		if !slices.Contains(m.enabled, d.Name) {
			m.set(d.Name, Disabled, m.reason(d.Name))
			continue
		}
		var missing []string
		for _, gvr := range d.Requires {
			if !served.Has(gvr) {
				missing = append(missing, strings.Trim(gvr.GroupResource().String()+"/"+gvr.Version, "/"))
			}
		}
		if len(missing) > 0 {
			m.set(d.Name, Skipped, "the server does not serve "+strings.Join(missing, ", "))
			continue
		}
		c := &Context{name: d.Name, client: m.factory.Client(), factory: m.factory, served: served, started: started, opts: &m.opts}
		if m.opts.NewClient != nil {
			if c.client, err = m.opts.NewClient(d.Name); err != nil {
				return clients, m.failed(d.Name, err)
			}
			clients = append(clients, c.client)
		}
		run, err := create(d, c)
		if err != nil {
			return clients, m.failed(d.Name, err)
		}
		if run == nil {
			m.set(d.Name, Declined, "it declined to run")
			continue
		}
		m.mu.Lock()
		m.state[d.Name].run = run
		m.mu.Unlock()
	}
	return clients, nil
}

// start starts what was made, and returns when all of it has ended.
func (m *Manager) start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		runs sync.WaitGroup
		mu   sync.Mutex // guards errs
		errs []error
	)
	first := true
	for _, name := range m.registry.Names() {
		m.mu.Lock()
		run := m.state[name].run
		m.mu.Unlock()
		if run == nil {
			continue
		}
		if interval := m.opts.StartInterval; !first && interval > 0 && !sleep(ctx, interval+rand.N(interval)) {
			break
		}
		first = false
		m.set(name, Running, "")
		runs.Go(func() {
			err := call(ctx, run)
			if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
				m.set(name, Ended, "")
				return
			}
			err = m.failed(name, err)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			cancel(err)
		})
	}
	if ctx.Err() == nil {
		m.mu.Lock()
		m.waiting = nil
		m.mu.Unlock()
	}
	<-ctx.Done()
	runs.Wait()
	return errors.Join(errs...)
}

// failed notes why a controller does not run, and returns that as an error of it.
func (m *Manager) failed(name string, err error) error {
	m.set(name, Ended, err.Error())
	return fmt.Errorf("%s: %w", name, err)
}

func (m *Manager) reason(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state[name].Reason
}

// create calls the descriptor's New and makes an error of a panic.
func create(d Descriptor, c *Context) (run manager.Runnable, err error) {
	defer recovered("New", &err)
	return d.New(c)
}

// call runs a controller and makes an error of a panic.
func call(ctx context.Context, run manager.Runnable) (err error) {
	defer recovered("Run", &err)
	return run.Run(ctx)
}

func recovered(in string, err *error) {
	if p := recover(); p != nil {
		*err = &reflector.PanicError{In: in, Value: p, Stack: debug.Stack()}
	}
}

// sleep waits for d, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
