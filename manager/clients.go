package manager

import (
	"reflect"
	"sync"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
)

// Client returns the manager's client for T's kind. Calls for the same type return the same client. It
// reads from the manager's cache and writes to the server; see [controller.Client].
//
//	sites := manager.Client[*Site](m)
//
// Its cache is created on first use, or when Run starts; until then, [Builder.Sharded] can narrow it. For a
// type that has several caches or does not determine the kind, use controller.ClientWith with the manager's
// Factory. Client panics if m is nil.
func Client[T object.Object](m *Manager) *controller.Client[T] {
	mustHave(m)
	return m.shared.client(reflect.TypeFor[T](), func() any { return controller.LateClient(m.Factory(), factory.For[T]{}) }).(*controller.Client[T])
}

// shared contains the clients returned by [Client].
type shared struct {
	mu      sync.Mutex // guards the fields below
	clients map[reflect.Type]any
	running bool
}

// client returns the client for a type; the first call creates it.
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

// use makes all clients request their informers, including those created later.
func (s *shared) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = true
	for _, c := range s.clients {
		use(c)
	}
}

// use makes a client request its informer.
func use(client any) { client.(controller.Watchable).View() }
