package apiservertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// Server is a simulated API server: a watch cache over its cluster's store, behind the Kubernetes HTTP API.
// [New] creates a server with its own cluster, and [Server.Front] adds another server to the same cluster.
// All methods are safe for concurrent use. Methods concerning objects, resources, permissions and the
// history affect the whole cluster; all others affect only this server.
type Server struct {
	*cluster
	opts   Options
	faults *Faults
	stats  *Stats

	shardSelectors atomic.Bool // see Options.ShardSelectors

	// Guarded by the cluster's mutex.
	view     view
	readings map[object.GVR]*reading
	timeouts *dice

	// life guards the fields below. It is never held together with the cluster's mutex.
	life      sync.Mutex
	calls     int // number of requests so far
	running   map[*call]struct{}
	idle      chan struct{} // closed once closed is set and running is empty
	endpoints []*Endpoint
	down      bool
	closed    bool
}

// New creates a server. It panics if opts.Resources is invalid.
func New(opts Options) *Server {
	opts.complete()
	s := newServer(newCluster(opts), opts)
	for _, r := range append(Builtin(), opts.Resources...) {
		if err := s.AddResource(r); err != nil {
			panic(fmt.Sprintf("apiservertest.New: %v", err))
		}
	}
	if opts.NamespaceLifecycle {
		s.createSystemNamespaces()
	}
	return s
}

// FrontOptions are the settings that may differ from those of the first server in the cluster.
type FrontOptions struct {
	// Lag is the delay before the server's watch cache sees a change; see [Server.SetLag].
	Lag time.Duration

	// History is the number of changes kept per resource in the watch cache. Zero means as many as the
	// cluster keeps.
	History int

	// Seed is the seed for the server's own faults and watch timeouts; if zero, it is derived from the
	// cluster's seed.
	Seed uint64
}

// Front adds another server with the same options to s's cluster, like a second API server behind a load
// balancer. It has its own endpoints, faults and counters, can go up and down independently, and must be
// closed separately.
//
// It may serve stale reads. As on a real server, lists from version "0" and watches
// return the state of the watch cache, and bookmarks carry its version. Lists and streaming lists without a
// version wait up to Options.FreshnessWait for the cache; after that, a list is served from the store, and
// a streaming list fails. A get without a version reads the store, and writes take effect immediately.
func (s *Server) Front(opts FrontOptions) *Server {
	common := s.opts
	s.mu.Lock()
	common.Seed = cmp.Or(opts.Seed, common.Seed+uint64(len(s.fronts))<<32)
	s.mu.Unlock()
	f := newServer(s.cluster, common)
	f.SetLag(opts.Lag)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beginView()
	f.hold(opts.History)
	return f
}

func newServer(c *cluster, opts Options) *Server {
	s := &Server{
		cluster:  c,
		opts:     opts,
		stats:    newStats(),
		readings: map[object.GVR]*reading{},
		timeouts: newDice(opts.Seed, "timeouts"),
		running:  map[*call]struct{}{},
		idle:     make(chan struct{}),
	}
	s.faults = newFaults(opts.Seed)
	s.shardSelectors.Store(opts.ShardSelectors)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fronts = append(c.fronts, s)
	return s
}

// Faults returns the fault rules.
func (s *Server) Faults() *Faults { return s.faults }

// Stats returns the counters.
func (s *Server) Stats() *Stats { return s.stats }

// Restart cuts all connections, as if the server had been killed and restarted, but keeps the watch cache.
// To rebuild it, use [Server.RestartCold].
func (s *Server) Restart() {
	s.cut(errCut)
}

// RestartCold cuts all connections and rebuilds the watch cache, like restarting a real server: watches
// from earlier versions fail as expired, while exact lists and continue tokens remain valid until Compact.
// From then on the cache keeps history changes per resource, or all that the cluster keeps if history is
// zero.
func (s *Server) RestartCold(history int) {
	s.mu.Lock()
	s.beginView()
	s.hold(history)
	s.wake()
	s.mu.Unlock()
	s.cut(errCut)
}

// Down cuts all connections and refuses new ones until Up.
func (s *Server) Down() {
	s.life.Lock()
	s.down = true
	s.life.Unlock()
	s.cut(errCut)
}

// Up ends Down.
func (s *Server) Up() {
	s.life.Lock()
	s.down = false
	s.life.Unlock()
}

// Close cuts all connections, closes all endpoints, and returns once all of the server's goroutines have
// exited. The objects can still be read afterwards.
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
	s.mu.Lock()
	s.fronts = slices.DeleteFunc(s.fronts, func(f *Server) bool { return f == s })
	s.mu.Unlock()
	s.cut(errClosed)
	for _, e := range endpoints {
		e.shutdown()
	}
	<-s.idle
}

var (
	// errCut is the cancellation cause for requests whose connection must be broken.
	errCut = errors.New("connection cut")

	errClosed = fmt.Errorf("server closed: %w", errCut)
)

// cut aborts the requests in progress and closes all endpoints' connections.
func (s *Server) cut(cause error) {
	s.life.Lock()
	oldestFirst := func(a, b *call) int { return cmp.Compare(a.id, b.id) }
	for _, c := range slices.SortedFunc(maps.Keys(s.running), oldestFirst) {
		c.cancel(cause)
	}
	endpoints := append([]*Endpoint(nil), s.endpoints...)
	s.life.Unlock()
	for _, e := range endpoints {
		e.cut()
	}
}

// begin registers a request. It fails if the server is down or closed.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) (*call, bool) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.down || s.closed {
		return nil, false
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	s.calls++
	c := &call{server: s, id: s.calls, r: r, ctx: ctx, cancel: cancel, w: newResponse(w)}
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

// newUID returns a UID for a new object. The caller must hold the mutex.
func (s *cluster) newUID(c *collection, obj object.Object) types.UID {
	random := s.dice.of("uid " + c.GVR.Group + "/" + c.GVR.Resource + " " + c.pathOf(object.KeyOf(obj)))
	hi, lo := random.Uint64(), random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(hi>>32), uint16(hi>>16), uint16(hi)&0xfff, uint16(lo>>48)&0x3fff|0x8000, lo&(1<<48-1)))
}

// createSystemNamespaces creates the namespaces that exist in every cluster.
func (s *Server) createSystemNamespaces() {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		if _, err := s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			panic(err) // cannot fail, since the store is empty
		}
	}
}

// namespaceExists performs the checks of the NamespaceLifecycle admission plugin. The caller must hold
// the mutex.
func (s *cluster) namespaceExists(name string) error {
	namespaces := s.collections[corev1.SchemeGroupVersion.WithResource("namespaces")]
	if namespaces == nil || namespaces.objects[name] == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return nil
}

// nameAlphabet is the set of characters used in generated names. It has no vowels, so that names do not
// contain words.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// generateName returns a name starting with a metadata.generateName prefix. The caller must hold the mutex.
func (s *cluster) generateName(prefix string) string {
	const suffix = 5
	prefix = prefix[:min(len(prefix), 63-suffix)]
	random := s.dice.of("name " + prefix)
	name := []byte(prefix)
	for range suffix {
		name = append(name, nameAlphabet[random.IntN(len(nameAlphabet))])
	}
	return string(name)
}

// Options configure a [Server]. With the zero value, the server serves the built-in resources and allows
// everything.
type Options struct {
	// Seed determines UIDs, generated names and all other random values; see the
	// package's Guarantees.
	Seed uint64

	// FirstRV is the resource version of the server while it is empty. The default is 100.
	FirstRV uint64

	// History is the minimum number of changes kept per resource for watches that start
	// in the past. The default is 10,000.
	History int

	// BookmarkPeriod is the interval between a watch's bookmarks. The default is one minute, as on a real
	// server.
	BookmarkPeriod time.Duration

	// FreshnessWait is the time that a list waits for a resource version that does not exist yet
	// before it fails with 504. The default is three seconds, as on a real server.
	FreshnessWait time.Duration

	// WatchTimeout is the duration of a watch without timeoutSeconds. The default is a random
	// duration between 30 and 60 minutes, as on a real server.
	WatchTimeout time.Duration

	// StreamingLists determines how the server handles sendInitialEvents.
	StreamingLists StreamingLists

	// ShardSelectors makes the server filter by shardSelector, like a server with the feature gate
	// ShardedListAndWatch. Without it, the server ignores the parameter. SetShardSelectors changes it
	// later.
	ShardSelectors bool

	// NoAggregatedDiscovery makes /api and /apis respond only in the classic format.
	NoAggregatedDiscovery bool

	// NamespaceLifecycle creates the namespaces that exist in every cluster, and rejects new objects in
	// missing namespaces. Otherwise any namespace is accepted.
	NamespaceLifecycle bool

	// Tokens maps bearer tokens to user names. If it is set, a request with an unknown token gets a 401,
	// and one without a token is from system:anonymous. If it is nil, every request is from "admin".
	Tokens map[string]string

	// Authorize, if set, authorizes each request; see [Authorizer].
	Authorize Authorizer

	// Resources are the resources to serve in addition to [Builtin].
	Resources []Resource

	// Loads serve lists and watches of their resources instead of the store.
	Loads []*Load

	// Logger receives problems that clients do not see, such as a failed TLS handshake. Nil means no
	// logging.
	Logger *slog.Logger
}

// StreamingLists is a level of support for sendInitialEvents (KEP-3157).
type StreamingLists int

const (
	// StreamingListsOn serves streaming lists.
	StreamingListsOn StreamingLists = iota

	// StreamingListsRefused responds with 422, like a server with the feature turned off.
	StreamingListsRefused

	// StreamingListsIgnored ignores the option, like a server that predates the feature, and serves
	// a plain watch without an initial-events-end bookmark.
	StreamingListsIgnored
)

func (o *Options) complete() {
	o.FirstRV = cmp.Or(o.FirstRV, 100)
	o.History = cmp.Or(o.History, 10_000)
	o.BookmarkPeriod = cmp.Or(o.BookmarkPeriod, time.Minute)
	o.FreshnessWait = cmp.Or(o.FreshnessWait, 3*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
