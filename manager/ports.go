package manager

import (
	"errors"
	"slices"
)

// addListener lets Run open the port, or opens it now if Run has begun. It refuses where
// the manager stops.
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

// dropListener takes back what addListener did.
func (m *Manager) dropListener(l *listener) error {
	m.mu.Lock()
	m.listeners = slices.DeleteFunc(m.listeners, func(other *listener) bool { return other == l })
	m.mu.Unlock()
	return m.closePort(l)
}

// listen opens a port, which the manager closes unless somebody takes it.
func (m *Manager) listen(l *listener) error {
	if err := (*l).Listen(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports = append(m.ports, l)
	return nil
}

// take leaves a port to whoever closes it, as its Run does. It reports whether it was still
// open.
func (m *Manager) take(l *listener) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.ports)
	m.ports = slices.DeleteFunc(m.ports, func(other *listener) bool { return other == l })
	return len(m.ports) < before
}

// closePort closes a port whose Run was not called.
func (m *Manager) closePort(l *listener) error {
	if !m.take(l) {
		return nil
	}
	return (*l).Close()
}

// closePorts closes the ports of all whose Run was not called, for example because another
// process led.
func (m *Manager) closePorts() (err error) {
	m.mu.Lock()
	ports := slices.Clone(m.ports)
	m.mu.Unlock()
	for _, l := range ports {
		err = errors.Join(err, m.closePort(l))
	}
	return err
}
