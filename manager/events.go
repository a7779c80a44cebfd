package manager

import (
	"github.com/millrace-dev/millrace/controller"
)

// Events returns the recorder of events in the name of a controller, such as
// "example.com/memcached". The manager runs it, before all that may record some and
// until they have ended. Each call with one name returns the same recorder. A name that
// the API does not take ends the manager with an error that says so.
func (m *Manager) Events(name string) *controller.Events {
	m.mu.Lock()
	events, known := m.events[name]
	if !known {
		events = controller.NewEvents(m.Client(), name, controller.EventOptions{Logger: m.logger})
		m.events[name] = events
	}
	m.mu.Unlock()
	if known {
		return events
	}
	if err := m.Add(events); err != nil { // the manager is stopping
		m.logger.Warn("events are not sent", "controller", name, "err", err)
	}
	return events
}
