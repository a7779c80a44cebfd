package apiservertest

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest/internal/ownership"
	"github.com/millrace-dev/millrace/object"
)

// cluster is the state shared by all servers in a cluster, which a real cluster keeps in etcd: objects with
// their history, resources, and permissions.
//
// A single mutex guards it, along with each server's view of it. It is held only for map and slice
// operations, never while encoding or writing to a client. A watch, for example, slices off its unsent
// changes and then releases the mutex.
type cluster struct {
	types *ownership.Types

	mu          sync.Mutex
	rv          uint64        // version of the newest change to any resource
	advanced    chan struct{} // closed and replaced on each change
	history     int           // minimum number of changes kept per resource
	stamps      []stamp       // times of the changes that not all servers have seen yet, oldest first
	dice        *dice
	collections map[object.GVR]*collection
	byType      map[reflect.Type]*collection
	authorize   Authorizer
	logs        podLogs
	fronts      []*Server // servers not yet closed
}

// stamp records when a change was made.
type stamp struct {
	rv uint64
	at time.Time
}

func newCluster(opts Options) *cluster {
	return &cluster{
		types:       ownership.NewTypes(),
		rv:          opts.FirstRV,
		advanced:    make(chan struct{}),
		history:     opts.History,
		dice:        newDice(opts.Seed, "objects"),
		collections: map[object.GVR]*collection{},
		byType:      map[reflect.Type]*collection{},
		authorize:   opts.Authorize,
		logs:        podLogs{lines: map[types.UID]map[string][]logLine{}, written: make(chan struct{})},
	}
}

// log appends e to the changes of c. The caller must hold the mutex.
func (s *cluster) log(c *collection, e *event) {
	if slices.ContainsFunc(s.fronts, func(f *Server) bool { return f.view.behind() }) {
		s.stamps = append(s.stamps, stamp{e.rv, time.Now()})
	} else {
		s.stamps = nil
	}
	oldest := s.oldestSeen()
	if len(s.stamps) > 0 && s.stamps[0].rv <= oldest {
		s.stamps = slices.DeleteFunc(s.stamps, func(st stamp) bool { return st.rv <= oldest })
	}
	c.apply(e, s.history, oldest)
	close(s.advanced)
	s.advanced = make(chan struct{})
}

// oldestSeen returns the version that the slowest server has seen. The caller must hold the mutex.
func (s *cluster) oldestSeen() uint64 {
	rv := s.rv
	for _, f := range s.fronts {
		f.advance()
		rv = min(rv, f.view.seen)
	}
	return rv
}

// wake wakes all goroutines waiting for a change. The caller must hold the mutex.
func (s *cluster) wake() {
	close(s.advanced)
	s.advanced = make(chan struct{})
	for _, c := range s.collections {
		c.wake()
	}
}

// Compact drops the history: watches and exact lists from any version before the current one fail as
// expired, and so do the continue tokens of earlier lists. Open watches continue.
func (s *cluster) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.floor = s.rv
	}
}

// SetAuthorizer replaces Options.Authorize; nil allows everything. It affects later
// requests, not open watches.
func (s *cluster) SetAuthorizer(a Authorizer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authorize = a
}
