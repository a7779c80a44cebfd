package apiservertest

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// Stats counts a server's requests, watch events and faults. All methods are safe for concurrent
// use.
type Stats struct {
	mu       sync.Mutex
	requests map[RequestKey]int
	started  map[RequestKey]int
	events   map[EventKey]int
	faults   map[string]int
}

// RequestKey is the key for counting requests.
type RequestKey struct {
	Verb     string // as in RBAC
	Resource string // plural name; empty for discovery, health checks and so on
	Code     int    // HTTP status; 0 if the connection broke before there was one
}

// EventKey is the key for counting watch events.
type EventKey struct {
	Resource string
	Type     watch.EventType
}

func newStats() *Stats {
	return &Stats{
		requests: map[RequestKey]int{},
		started:  map[RequestKey]int{},
		events:   map[EventKey]int{},
		faults:   map[string]int{},
	}
}

// Requests returns the number of requests received for a verb and resource, including
// those in progress. An empty verb or resource means all.
func (s *Stats) Requests(verb, resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sum(s.started, func(k RequestKey) bool { return k.is(verb, resource) })
}

// Answers returns the number of finished requests for a verb and resource with an HTTP status. Status 0
// means that the connection broke before there was one. An empty verb or resource means all.
func (s *Stats) Answers(verb, resource string, code int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sum(s.requests, func(k RequestKey) bool { return k.is(verb, resource) && k.Code == code })
}

// AllAnswers returns the number of finished requests for every key.
func (s *Stats) AllAnswers() map[RequestKey]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Open returns the number of requests in progress for a verb and resource; for "watch",
// the open watches.
func (s *Stats) Open(verb, resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	match := func(k RequestKey) bool { return k.is(verb, resource) }
	return sum(s.started, match) - sum(s.requests, match)
}

// Events returns the number of watch events sent for a resource and type; empty means
// all.
func (s *Stats) Events(resource string, kind watch.EventType) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sum(s.events, func(k EventKey) bool {
		return (resource == "" || k.Resource == resource) && (kind == "" || k.Type == kind)
	})
}

// Faults returns the number of requests hit by each fault, keyed by name.
func (s *Stats) Faults() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.faults)
}

// Reset sets all counters to zero. Requests in progress are still counted as received, so Open remains
// correct.
func (s *Stats) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range s.requests {
		s.started[RequestKey{Verb: k.Verb, Resource: k.Resource}] -= n
	}
	clear(s.requests)
	clear(s.events)
	clear(s.faults)
}

func (k RequestKey) is(verb, resource string) bool {
	return (verb == "" || k.Verb == verb) && (resource == "" || k.Resource == resource)
}

func sum[K comparable](counts map[K]int, match func(K) bool) int {
	total := 0
	for k, n := range counts {
		if match(k) {
			total += n
		}
	}
	return total
}

func (s *Stats) arrived(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[RequestKey{Verb: c.verb, Resource: c.resource}]++
}

func (s *Stats) request(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[RequestKey{Verb: c.verb, Resource: c.resource, Code: c.w.code}]++
}

func (s *Stats) event(c *call, kind watch.EventType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[EventKey{Resource: c.resource, Type: kind}]++
}

func (s *Stats) fault(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[name]++
}
