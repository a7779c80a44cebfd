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

// cluster is what the servers of one cluster have in common, and what etcd holds
// in a real one: the objects with their history, the resources, and the rights.
//
// One mutex guards it, together with the view that each server has of it. It is
// held for map and slice operations only, never while anything is encoded or
// written to a client: a watch takes the slice of changes that it has not sent
// yet and lets go.
type cluster struct {
	types *ownership.Types

	mu          sync.Mutex
	rv          uint64        // of the newest change anywhere
	advanced    chan struct{} // closed, and replaced, with each change
	history     int           // changes of each resource that are kept at least
	stamps      []stamp       // when the changes were made that a server has yet to see, oldest first
	dice        *dice
	collections map[object.GVR]*collection
	byType      map[reflect.Type]*collection
	authorize   Authorizer
	logs        podLogs
	fronts      []*Server // those that are not closed
}

// stamp says when a change was made.
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

// log makes e the newest change of c. The mutex must be held.
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

// oldestSeen is the version that the slowest of the servers has come to. The
// mutex must be held.
func (s *cluster) oldestSeen() uint64 {
	rv := s.rv
	for _, f := range s.fronts {
		f.advance()
		rv = min(rv, f.view.seen)
	}
	return rv
}

// wake lets everyone who waits for a change look again. The mutex must be held.
func (s *cluster) wake() {
	close(s.advanced)
	s.advanced = make(chan struct{})
	for _, c := range s.collections {
		c.wake()
	}
}

// Compact forgets the history: a watch or an exact list from any version
// before the present one is expired, and so are the tokens of paged lists.
// Watches that are open go on.
func (s *cluster) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.floor = s.rv
	}
}

// SetAuthorizer replaces Options.Authorize; nil allows everything. It applies
// to requests that come after it, and not to watches that are open.
func (s *cluster) SetAuthorizer(a Authorizer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authorize = a
}
