package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/webhook"
)

// Add adds r to the program. The default group is LeaderElected, unless a LeaderElectionRunnable selects
// Others. Clusters go to Caches, servers to Servers or Webhooks, and controllers that handle a share of the
// objects (controller.Controller.Share) to Others. Event recorders start before anything that may record
// events. If r's group has already started, r starts immediately.
//
// Add fails if r has already been added or its name is taken. It fails with ErrStopped if the group is
// stopping or Run has failed.
func (m *Manager) Add(r Runnable) error {
	if absent(r) {
		panic(failure.Place(1) + ": the runnable is nil")
	}
	return m.add(groupOf(r), r)
}

// absent reports whether r is nil, or a nil pointer or function.
func absent(r Runnable) bool {
	v := reflect.ValueOf(r)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

// AddTo is like [Manager.Add], with an explicit group.
func (m *Manager) AddTo(group Group, r Runnable) error {
	if absent(r) {
		panic(failure.Place(1) + ": the runnable is nil")
	}
	if group == recorders {
		return fmt.Errorf("add %T: there is no Group(%d)", r, int(group))
	}
	return m.add(group, r)
}

func (m *Manager) add(group Group, r Runnable) (err error) {
	name, unique := nameOf(r)
	if group < Servers || group > LeaderElected || group == warmUps {
		return fmt.Errorf("add %s: there is no %v", name, group)
	}
	if s, ok := r.(sharer); ok && group == LeaderElected && s.Share() != nil {
		return fmt.Errorf("add %s: it has a share of the work, which would be left undone while another process is the leader: add it to Others", name)
	}
	if err := m.once(r); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	undo := func() { m.again(r) } // a caller may try again, for example when its port is free
	defer func() {
		if err != nil {
			undo()
		}
	}()
	claimed := false
	if cluster, ok := r.(*Cluster); ok {
		if err := m.addCluster(cluster); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	} else if hooks, ok := r.(*webhook.Server); ok {
		var err error
		if name, undo, err = m.addWebhooks(hooks); err != nil { // do this first, because the API server must not send requests before /readyz checks the server
			return fmt.Errorf("add %s: %w", name, err)
		}
	} else if unique {
		if err := m.claim(name); err != nil {
			return fmt.Errorf("add: %w", err)
		}
		claimed = true
		undo = func() { m.release(name) }
	}
	run, unfinished := r.Run, unfinishedOf(r)
	if l, ok := r.(listener); ok {
		port := &l
		if err := m.addListener(port); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, m.dropListener(port))
			}
		}()
		run = func(ctx context.Context) error {
			m.take(port)
			return r.Run(ctx)
		}
	}
	if s, ok := r.(metrics.CertificateSource); ok {
		if err := m.metrics.Register(metrics.NewCertificates(name, s)); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	if c, ok := r.(cache); ok && group == Caches {
		m.mu.Lock()
		m.caches = append(m.caches, c)
		m.mu.Unlock()
	}
	if ready, ok := r.(Readier); ok {
		run = m.watched(&checked{ready, unfinished}, run)
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
	if claimed {
		run = m.named(name, run)
	}
	run, forget := m.controllers.adopt(r, run)
	defer func() {
		if err != nil {
			forget()
		}
	}()
	if err := m.groups[group].add(task{name: name, run: run, unfinished: unfinished}); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

// addWebhooks adds a check for a webhook server to /readyz, and returns the server's name, with a number
// appended if the name is taken, and a function that undoes this.
func (m *Manager) addWebhooks(hooks *webhook.Server) (name string, undo func(), err error) {
	name, check := hooks.Name(), "webhooks"
	undo = func() {}
	m.mu.Lock()
	if slices.Contains(m.hooks, hooks) {
		m.mu.Unlock()
		return name, undo, errors.New("it has already been added")
	}
	m.hooks = append(m.hooks, hooks)
	m.mu.Unlock()
	drop := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.hooks = slices.DeleteFunc(m.hooks, func(other *webhook.Server) bool { return other == hooks })
	}
	n := 1
	for m.ready.add(check, func(*http.Request) error { return hooks.Check() }) != nil {
		n++
		check = fmt.Sprintf("webhooks-%d", n)
	}
	if err = m.claim(name); err != nil && n > 1 {
		name = fmt.Sprintf("%s %d", name, n)
		err = m.claim(name)
	}
	if err != nil {
		m.ready.remove(check)
		drop()
		return name, undo, err
	}
	return name, func() {
		m.release(name)
		m.ready.remove(check)
		drop()
	}, nil
}

// once prevents an unnamed runnable from being added twice; claim does so for named ones. It can only
// compare pointers.
func (m *Manager) once(r Runnable) error {
	if !tracked(r) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.added[r] {
		return errors.New("it has already been added")
	}
	m.added[r] = true
	return nil
}

// again reverts once.
func (m *Manager) again(r Runnable) {
	if tracked(r) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.added, r)
	}
}

// tracked reports whether once tracks r.
func tracked(r Runnable) bool {
	_, unique := nameOf(r)
	t := reflect.TypeOf(r)
	return !unique && t.Kind() == reflect.Pointer && t.Elem().Size() > 0
}

// claim reserves a name. It fails if the name is taken.
func (m *Manager) claim(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] {
		return fmt.Errorf("two runnables are named %q: give one of them a different name", name)
	}
	m.names[name] = true
	return nil
}

// named returns a run function that releases the name when it returns.
func (m *Manager) named(name string, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		defer m.release(name)
		return run(ctx)
	}
}

// release makes a name available again.
func (m *Manager) release(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, name)
}

// addCluster publishes a cluster's informers. Add runs them.
func (m *Manager) addCluster(c *Cluster) error {
	if c.name == "" && c != m.Cluster {
		return errors.New("only the manager's own cluster may be unnamed: set ClusterOptions.Name")
	}
	if err := m.claim(c.Name()); err != nil {
		return err
	}
	return m.show(c.Name(), c.name, c, c.factory.Unsynced)
}

// AddInformers publishes informers that the manager does not run, such as client-go's, under the cluster
// name. They are shown in /metrics and /debug/status, and /readyz fails while any of them is unsynced or
// stale.
func (m *Manager) AddInformers(name string, source metrics.InformerSource) error {
	if name == "" {
		return errors.New("add informers: only the manager's own cluster may be unnamed")
	}
	if source == nil {
		return fmt.Errorf("add informers: the source for %q is nil", name)
	}
	if err := m.claim("cluster " + name); err != nil {
		return fmt.Errorf("add informers: %w", err)
	}
	return m.show("cluster "+name, name, source, source.Status)
}

// show publishes a cluster's informers. /readyz waits for the informers returned by unsynced. If show fails, it
// releases the runnable's name.
func (m *Manager) show(name, cluster string, source metrics.InformerSource, unsynced func() []sharedinformer.Status) error {
	check := "informers"
	if cluster != "" {
		check += "-" + cluster
	}
	if err := m.ready.add(check, synced(unsynced, source.Status)); err != nil {
		m.release(name)
		return err
	}
	if err := m.metrics.AddInformers(cluster, source); err != nil {
		m.ready.remove(check)
		m.release(name)
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.informers[cluster] = source
	return nil
}

// Events returns the event recorder for a controller name, such as "example.com/memcached". Calls with
// the same name return the same recorder. The manager runs the recorder, starting it before anything that
// may record events and stopping it afterwards. If the API server does not accept the name, Run fails.
func (m *Manager) Events(name string) *events.Recorder {
	m.mu.Lock()
	recorder, known := m.events[name]
	if !known {
		recorder = events.New(m.Client(), name, events.Options{Logger: m.logger})
		m.events[name] = recorder
	}
	m.mu.Unlock()
	if known {
		return recorder
	}
	if err := m.Add(recorder); err != nil { // the manager is stopping
		m.logger.Warn("events will not be sent", "controller", name, "err", err)
	}
	return recorder
}
