package manager

import (
	"errors"
	"slices"
)

// addListener opens the port if Run has started; otherwise Run will open it. It fails if the manager is
// stopping.
func (m *Manager) addListener(l *listener) error {
	m.mu.Lock()
	state := m.state
	if state == idle {
		m.listeners = append(m.listeners, l)
	}
	m.mu.Unlock()
	switch state {
	case idle:
		return nil
	case stopping:
		return ErrStopped
	}
	return m.listen(l)
}

// dropListener undoes addListener.
func (m *Manager) dropListener(l *listener) error {
	m.mu.Lock()
	m.listeners = slices.DeleteFunc(m.listeners, func(other *listener) bool { return other == l })
	m.mu.Unlock()
	return m.closePort(l)
}

// listen opens a port. The manager closes it unless take is called first.
func (m *Manager) listen(l *listener) error {
	if err := (*l).Listen(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports = append(m.ports, l)
	return nil
}

// take removes a port from the list of ports that the manager closes, because the runnable's Run closes
// it. It reports whether the port was still open.
func (m *Manager) take(l *listener) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.ports)
	m.ports = slices.DeleteFunc(m.ports, func(other *listener) bool { return other == l })
	return len(m.ports) < before
}

// closePort closes a port whose runnable was never run.
func (m *Manager) closePort(l *listener) error {
	if !m.take(l) {
		return nil
	}
	return (*l).Close()
}

// closePorts closes the ports of runnables that were never run, for example because another process was
// the leader.
func (m *Manager) closePorts() (err error) {
	m.mu.Lock()
	ports := slices.Clone(m.ports)
	m.mu.Unlock()
	for _, l := range ports {
		err = errors.Join(err, m.closePort(l))
	}
	return err
}
