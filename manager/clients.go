package manager

import (
	"reflect"
	"sync"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
)

// Client returns the manager's client of the kind of T: the same one each time. It reads from the
// manager's cache of the kind and writes to the server; see controller.Client.
//
//	sites := manager.Client[*Site](m)
//
// Its cache is made when it is first used, at the latest when Run begins; Sharded of a builder narrows
// it before. For one of several caches of a type, or a kind that the type does not tell, use
// controller.ClientWith with the manager's Factory. Client panics if m is nil.
func Client[T object.Object](m *Manager) *controller.Client[T] {
	mustHave(m)
	return m.shared.client(reflect.TypeFor[T](), func() any { return controller.LateClient(m.Factory(), factory.For[T]{}) }).(*controller.Client[T])
}

// shared are the clients of Client.
type shared struct {
	mu      sync.Mutex // guards all below
	clients map[reflect.Type]any
	running bool
}

// client returns the client for a type, which create makes if it is the first call.
func (s *shared) client(t reflect.Type, create func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.clients[t]
	if !known {
		if s.clients == nil {
			s.clients = make(map[reflect.Type]any)
		}
		c = create()
		s.clients[t] = c
	}
	if s.running {
		use(c)
	}
	return c
}

// use lets all clients have their caches, and those that are made from now on.
func (s *shared) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
	for _, c := range s.clients {
		use(c)
	}
}

// use lets a client ask for its informer.
func use(client any) { client.(controller.Watchable).View() }
