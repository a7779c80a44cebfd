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

// Server is a simulated API server: a watch cache over the store of its cluster,
// and the HTTP interface of Kubernetes upon it. New makes one with a cluster of
// its own, and Front another one of the same cluster. All methods may be called
// concurrently. Those that are about objects, resources, rights and the history
// concern the whole cluster; all others the server alone.
type Server struct {
	*cluster
	opts   Options
	faults *Faults
	stats  *Stats

	shardSelectors atomic.Bool // see Options.ShardSelectors

	// The cluster's mutex guards these.
	view     view
	readings map[object.GVR]*reading
	timeouts *dice

	// life guards what follows; it is never held together with the cluster's mutex.
	life      sync.Mutex
	calls     int // that have begun
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

// FrontOptions are how one server of a cluster differs from the others.
type FrontOptions struct {
	// Lag is how long after a change the server's watch cache sees it; see SetLag.
	Lag time.Duration

	// History is how many changes of each resource the watch cache can hold; all
	// that the cluster keeps if zero.
	History int

	// Seed is of the server's own faults and watch timeouts; it follows from that
	// of the cluster if zero.
	Seed uint64
}

// Front makes another server of the cluster of s, with the options of s, as the
// second API server behind a load balancer. Endpoints, faults, counters, and
// being up or down are its own, and it is closed on its own.
//
// What it reads may lag behind what is written. As on a real server, lists from
// version "0" and watches show what the watch cache has seen, and bookmarks carry
// how far that is. Lists and streaming lists without a version wait for the cache
// up to Options.FreshnessWait; then a list is answered from the store, and a
// streaming list is refused. A get without a version reads the store, and writes
// go to it at once.
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

// Faults gives the plan of what goes wrong.
func (s *Server) Faults() *Faults { return s.faults }

// Stats gives the counters.
func (s *Server) Stats() *Stats { return s.stats }

// Restart cuts every connection, as a server does that is killed and started
// again, but its watch cache stays. See RestartCold for one that does not.
func (s *Server) Restart() {
	s.cut(errCut)
}

// RestartCold cuts every connection and begins the watch cache anew, as the
// restart of a real server does: watches from versions before the present one are
// expired, while exact lists and tokens are good until Compact. From then on the
// cache can hold history changes of each resource; all that are kept if zero.
func (s *Server) RestartCold(history int) {
	s.mu.Lock()
	s.beginView()
	s.hold(history)
	s.wake()
	s.mu.Unlock()
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
	// errCut is the cause of a request's end that the client must see as a
	// broken connection.
	errCut = errors.New("connection cut")

	errClosed = fmt.Errorf("server closed: %w", errCut)
)

// cut ends the requests in progress and the connections of all endpoints.
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

// begin registers a request; it fails while the server is down or closed.
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

// newUID makes the UID of a new object. The mutex must be held.
func (s *cluster) newUID(c *collection, obj object.Object) types.UID {
	random := s.dice.of("uid " + c.GVR.Group + "/" + c.GVR.Resource + " " + c.pathOf(object.KeyOf(obj)))
	hi, lo := random.Uint64(), random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(hi>>32), uint16(hi>>16), uint16(hi)&0xfff, uint16(lo>>48)&0x3fff|0x8000, lo&(1<<48-1)))
}

// createSystemNamespaces makes the namespaces that every cluster has.
func (s *Server) createSystemNamespaces() {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		if _, err := s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			panic(err) // the store is empty
		}
	}
}

// namespaceExists refuses what the NamespaceLifecycle admission plugin does.
// The mutex must be held.
func (s *cluster) namespaceExists(name string) error {
	namespaces := s.collections[corev1.SchemeGroupVersion.WithResource("namespaces")]
	if namespaces == nil || namespaces.objects[name] == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return nil
}

// nameAlphabet are the characters of generated names: no vowels, so that no
// words appear.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// generateName completes metadata.generateName. The mutex must be held.
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

// Options say how a Server behaves. The zero value is a server with the
// built-in resources that lets everyone do everything.
type Options struct {
	// Seed determines UIDs, generated names and everything else that looks
	// random; see the package's Guarantees. Two servers with one seed and the same operations in the same
	// order hold the same objects, timestamps aside.
	Seed uint64

	// FirstRV is the resource version of the empty server; 100 if zero.
	FirstRV uint64

	// History is how many changes of each resource are kept at least for
	// watches that start in the past; 10,000 if zero.
	History int

	// BookmarkPeriod is the time between two bookmarks of one watch; one
	// minute if zero, as on a real server.
	BookmarkPeriod time.Duration

	// FreshnessWait is how long a list waits for a resource version of the
	// future before it answers 504; three seconds if zero, as on a real
	// server.
	FreshnessWait time.Duration

	// WatchTimeout is how long a watch lives that names no timeoutSeconds; 30
	// to 60 minutes, by the seed, if zero, as on a real server.
	WatchTimeout time.Duration

	// StreamingLists says what the server makes of sendInitialEvents.
	StreamingLists StreamingLists

	// ShardSelectors makes the server select by shardSelector, as one with the feature gate
	// ShardedListAndWatch does. Others overlook it. SetShardSelectors changes that.
	ShardSelectors bool

	// NoAggregatedDiscovery makes /api and /apis answer in the old form only.
	NoAggregatedDiscovery bool

	// NamespaceLifecycle creates the namespaces that every cluster has, and
	// refuses to create objects in namespaces that do not exist. Without it
	// any namespace will do.
	NamespaceLifecycle bool

	// Tokens maps bearer tokens to user names. Where it is set, an unknown
	// token is refused with 401 and a request without a token comes from
	// system:anonymous. Where it is nil, every request comes from "admin".
	Tokens map[string]string

	// Authorize is asked about each request, if set; see Authorizer.
	Authorize Authorizer

	// Resources are served in addition to Builtin.
	Resources []Resource

	// Load, if set, answers the lists and watches of its resource instead of
	// the store.
	Load *Load

	// Logger is told of problems that the server cannot tell its clients, such as a
	// refused TLS handshake. Nil is silent.
	Logger *slog.Logger
}

// StreamingLists is how far a server supports sendInitialEvents (KEP-3157).
type StreamingLists int

const (
	// StreamingListsOn serves streaming lists.
	StreamingListsOn StreamingLists = iota

	// StreamingListsRefused answers 422, as a server that knows the option
	// but has the feature switched off.
	StreamingListsRefused

	// StreamingListsIgnored overlooks the option, as a server that is older
	// than the feature: a plain watch, without an initial-events-end bookmark.
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
