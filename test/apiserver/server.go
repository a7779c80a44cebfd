package apiserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/test/apiserver/internal/ownership"
)

// Server is a simulated API server: a store with a history, and the HTTP
// interface of Kubernetes upon it. Make one with New. All methods may be
// called concurrently.
//
// One mutex guards the store. It is held for map and slice operations only,
// never while anything is encoded or written to a client: a watch takes the
// slice of changes that it has not sent yet and lets go.
type Server struct {
	opts   Options
	faults *Faults
	stats  *Stats
	types  *ownership.Types

	mu          sync.Mutex
	rv          uint64 // of the newest change anywhere
	advanced    chan struct{}
	rand        *rand.Rand // for objects: what is drawn depends on the writes alone
	timeouts    *rand.Rand // for watches
	collections map[object.GVR]*collection
	byType      map[reflect.Type]*collection
	authorize   Authorizer

	// life guards what follows; it is never held together with mu.
	life      sync.Mutex
	running   map[*call]struct{}
	idle      chan struct{} // closed when running is empty and closed is set
	endpoints []*Endpoint
	down      bool
	closed    bool
}

// New makes a server. It panics where opts.Resources cannot be served, which
// is a mistake in the calling program.
func New(opts Options) *Server {
	opts.complete()
	s := &Server{
		opts:        opts,
		stats:       newStats(),
		types:       ownership.NewTypes(),
		rv:          opts.FirstRV,
		advanced:    make(chan struct{}),
		rand:        rand.New(rand.NewPCG(opts.Seed, 0x6d696c6c)),
		timeouts:    rand.New(rand.NewPCG(opts.Seed, 0x77617463)),
		collections: map[object.GVR]*collection{},
		byType:      map[reflect.Type]*collection{},
		authorize:   opts.Authorize,
		running:     map[*call]struct{}{},
		idle:        make(chan struct{}),
	}
	s.faults = newFaults(opts.Seed)
	for _, r := range append(Builtin(), opts.Resources...) {
		if err := s.AddResource(r); err != nil {
			panic(fmt.Sprintf("apiserver.New: %v", err))
		}
	}
	if opts.NamespaceLifecycle {
		s.createSystemNamespaces()
	}
	return s
}

// Faults gives the plan of what goes wrong.
func (s *Server) Faults() *Faults { return s.faults }

// Stats gives the counters.
func (s *Server) Stats() *Stats { return s.stats }

// Compact forgets the history: a watch or an exact list from any version
// before the present one is expired, and so are the tokens of paged lists.
// Watches that are open go on.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.floor = s.rv
	}
}

// Restart cuts every connection, as a server does that is killed and started
// again. Objects and history stay. Call Compact before it for what the restart
// of a real server comes to, whose watch cache begins at the version at which
// it started.
func (s *Server) Restart() {
	s.cut(errCut)
}

// Down cuts every connection and refuses new ones until Up.
func (s *Server) Down() {
	s.life.Lock()
	s.down = true
	s.life.Unlock()
	s.cut(errCut)
}

// Up ends what Down began.
func (s *Server) Up() {
	s.life.Lock()
	s.down = false
	s.life.Unlock()
}

// Close cuts every connection, closes every endpoint, and returns when all
// goroutines of the server have ended. The objects can still be read.
func (s *Server) Close() {
	s.life.Lock()
	if !s.closed {
		s.closed = true
		if len(s.running) == 0 {
			close(s.idle)
		}
	}
	endpoints := s.endpoints
	s.endpoints = nil
	s.life.Unlock()
	s.cut(errClosed)
	for _, e := range endpoints {
		e.shutdown()
	}
	<-s.idle
}

var (
	// errCut is the cause of a request's end that the client must see as a
	// broken connection.
	errCut = errors.New("connection cut")

	errClosed = fmt.Errorf("server closed: %w", errCut)
)

// cut ends the requests in progress and the connections of all endpoints.
func (s *Server) cut(cause error) {
	s.life.Lock()
	for c := range s.running {
		c.cancel(cause)
	}
	endpoints := append([]*Endpoint(nil), s.endpoints...)
	s.life.Unlock()
	for _, e := range endpoints {
		e.cut()
	}
}

// begin registers a request; it fails while the server is down or closed.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) (*call, bool) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.down || s.closed {
		return nil, false
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	c := &call{server: s, r: r, ctx: ctx, cancel: cancel, w: newResponse(w)}
	s.running[c] = struct{}{}
	return c, true
}

func (s *Server) end(c *call) {
	c.cancel(nil)
	s.life.Lock()
	defer s.life.Unlock()
	delete(s.running, c)
	if s.closed && len(s.running) == 0 {
		close(s.idle)
	}
}

func (s *Server) refusing() bool {
	s.life.Lock()
	defer s.life.Unlock()
	return s.down || s.closed
}

// newUID makes the next UID of the seed. The mutex must be held.
func (s *Server) newUID() types.UID {
	hi, lo := s.rand.Uint64(), s.rand.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(hi>>32), uint16(hi>>16), uint16(hi)&0xfff, uint16(lo>>48)&0x3fff|0x8000, lo&(1<<48-1)))
}
