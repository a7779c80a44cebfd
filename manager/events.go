package manager

import (
	"github.com/millrace-dev/millrace/events"
)

// Events returns the recorder of events in the name of a controller, such as
// "example.com/memcached". Each call with one name returns the same recorder. The manager
// runs it: it starts before everything that may record events, and ends after. If the API
// does not accept the name, the manager ends with an error that says so.
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
		m.logger.Warn("events are not sent", "controller", name, "err", err)
	}
	return recorder
}
