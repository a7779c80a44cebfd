package manager

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// longStale is the age at which a cache is considered stale. If watches fail, polling keeps the cache more
// recent than this (reflector.Status.Polling).
const longStale = 15 * time.Minute

// synced returns a check that fails while unsynced returns any informer or any of all is stale. The
// error lists each such informer with the reason.
func synced(unsynced, all func() []sharedinformer.Status) Check {
	return func(*http.Request) error {
		var missing, stale []string
		for _, s := range unsynced() {
			for _, r := range s.Unsynced() {
				missing = append(missing, reason(s, r))
			}
		}
		now := time.Now()
		for _, s := range all() {
			if s.QueueAge > longStale {
				stale = append(stale, fmt.Sprintf("%s old: %s: %s", s.QueueAge.Round(time.Second), s.Reflector.Resource, cmp.Or(s.Blocked, "changes are waiting for the cache")))
			}
			for _, r := range s.Stale(now, longStale) {
				stale = append(stale, fmt.Sprintf("%s old: %s", r.Age(now).Round(time.Second), reason(s, r)))
			}
		}
		var errs []error
		if len(missing) > 0 {
			errs = append(errs, fmt.Errorf("not synced: %s", strings.Join(missing, "; ")))
		}
		if len(stale) > 0 {
			errs = append(errs, fmt.Errorf("stale: %s", strings.Join(stale, "; ")))
		}
		return errors.Join(errs...)
	}
}

// reason explains why a reflector is not up to date. The reflector may, for example, have stopped because a
// panicking index function broke the cache.
func reason(s sharedinformer.Status, r reflector.Status) string {
	if r.Attempts > 0 {
		return r.Failure.Error()
	}
	if r.State == reflector.Stopped && s.Failure != nil {
		return s.Failure.Error()
	}
	return fmt.Sprintf("%s: %s for %s", r.Resource, r.State, time.Since(r.Since).Round(time.Second))
}

// checkState fails until everything has started, and again while the manager is stopping.
func (m *Manager) checkState(*http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != running {
		return fmt.Errorf("the manager is %s", m.state)
	}
	return nil
}

// checkWarm fails until all warm-ups have returned.
func (m *Manager) checkWarm(*http.Request) error {
	running, waiting := m.groups[warmUps].status()
	if cold := append(running, waiting...); len(cold) > 0 {
		return fmt.Errorf("not done: %s", strings.Join(cold, ", "))
	}
	return nil
}

// checked is a Readier that is running.
type checked struct {
	Readier
	unfinished func() []string
}

// checkRunnables fails while any running Readier is not ready.
func (m *Manager) checkRunnables(*http.Request) error {
	m.mu.Lock()
	readiers := slices.Clone(m.readiers)
	m.mu.Unlock()
	var errs []error
	for _, r := range readiers {
		errs = append(errs, ready(r))
	}
	return errors.Join(errs...)
}

// ready returns r.Ready(). If Ready or a method of its error panics, it returns an error with r's name.
func ready(r *checked) (err error) {
	broken := failure.Apart("Ready", func() error {
		if err = r.Ready(); err != nil {
			_ = err.Error()
		}
		return nil
	})
	if broken == nil {
		return err
	}
	name, _ := nameOf(r.Readier)
	return fmt.Errorf("%s: %w", name, broken)
}

// slow lists slow work in runnables that are ready; it returns "" if there is none.
func (m *Manager) slow() string {
	m.mu.Lock()
	readiers := slices.Clone(m.readiers)
	m.mu.Unlock()
	left := make([][]string, len(readiers))
	var asking sync.WaitGroup
	for n, r := range readiers {
		asking.Go(func() { left[n] = r.unfinished() })
	}
	asking.Wait()
	var all []string
	for n, r := range readiers {
		if len(left[n]) > 0 {
			name, _ := nameOf(r.Readier)
			all = append(all, withUnfinished(name, left[n]))
		}
	}
	return strings.Join(all, ", ")
}

// checkElection fails if this process is still working as the leader without a valid lease.
func (m *Manager) checkElection(*http.Request) error { return m.elector.Check() }
