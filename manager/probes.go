package manager

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/sharedinformer"
)

// synced fails while an informer is not synced that unsynced returns, and names each
// with the reason.
func synced(unsynced func() []sharedinformer.Status) Check {
	return func(*http.Request) error {
		var reasons []string
		for _, s := range unsynced() {
			for _, r := range s.Unsynced() {
				reason := fmt.Sprintf("%s: %s for %s", r.Resource, r.State, time.Since(r.Since).Round(time.Second))
				if r.Attempts > 0 {
					reason = r.Failure.Error()
				}
				reasons = append(reasons, reason)
			}
		}
		if len(reasons) > 0 {
			return fmt.Errorf("not synced: %s", strings.Join(reasons, "; "))
		}
		return nil
	}
}

// checkState fails before everything was started and as soon as it is stopped.
func (m *Manager) checkState(*http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != running {
		return fmt.Errorf("the manager is %s", m.state)
	}
	return nil
}

// checkWarm fails while a warm-up has not returned.
func (m *Manager) checkWarm(*http.Request) error {
	running, waiting := m.groups[warmUps].status()
	if cold := append(running, waiting...); len(cold) > 0 {
		return fmt.Errorf("not done: %s", strings.Join(cold, ", "))
	}
	return nil
}

// checkRunnables fails while something that runs is not ready.
func (m *Manager) checkRunnables(*http.Request) error {
	m.mu.Lock()
	readiers := slices.Clone(m.readiers)
	m.mu.Unlock()
	var errs []error
	for _, r := range readiers {
		errs = append(errs, (*r).Ready())
	}
	return errors.Join(errs...)
}

// checkElection fails when we work without a lease.
func (m *Manager) checkElection(*http.Request) error { return m.elector.Check() }
