package apiservertest

import (
	"maps"
	"reflect"
	"slices"

	"github.com/millrace-dev/millrace/object"
)

// Snapshot is a cluster's state at a point in time: its objects, resources and resource version. It is
// immutable.
type Snapshot struct {
	rv      uint64
	shelves []shelf
}

// shelf is the content of a [Snapshot] for one resource.
type shelf struct {
	resource Resource
	objects  map[string]*version
	paths    []string
	last     uint64
}

// RV returns the resource version of the newest change in the snapshot.
func (p *Snapshot) RV() string { return formatRV(p.rv) }

// Snapshot returns the current state, like an etcd backup.
func (s *cluster) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Snapshot{rv: s.rv}
	for _, c := range s.collections {
		p.shelves = append(p.shelves, shelf{c.Resource, maps.Clone(c.objects), slices.Clone(c.paths), c.last})
	}
	return p
}

// Restore resets the cluster to the state of p, like restoring an etcd backup. Later writes are lost, and
// new writes reuse their resource versions for different changes. All servers in the cluster cut their
// connections and restart their watch caches at p's version, without any earlier history. UIDs are not
// reused. Servers that are down remain down.
func (s *cluster) Restore(p *Snapshot) { s.RestoreBumped(p, 0) }

// RestoreBumped is like [Server.Restore], but raises the resource version by by, which must exceed the
// number of versions written since the snapshot so that no version is reused. This corresponds to etcdutl
// snapshot restore with --bump-revision and --mark-compacted, as the Kubernetes documentation recommends.
func (s *cluster) RestoreBumped(p *Snapshot, by uint64) {
	for _, f := range s.restore(p, by) {
		f.cut(errCut)
	}
}

// restore returns the servers whose connections must be cut.
func (s *cluster) restore(p *Snapshot, by uint64) []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	rv := p.rv + by // before anything is changed, because p may be nil
	for _, c := range s.collections {
		c.end()
	}
	s.collections, s.byType = map[object.GVR]*collection{}, map[reflect.Type]*collection{}
	s.rv, s.stamps = rv, nil
	for _, shelf := range p.shelves {
		c := newCollection(shelf.resource, s.types, s.rv)
		c.objects, c.paths, c.last = maps.Clone(shelf.objects), slices.Clone(shelf.paths), shelf.last
		s.collections[c.GVR] = c
		if !c.untyped() {
			s.byType[c.goType()] = c
		}
	}
	fronts := slices.Clone(s.fronts)
	for _, f := range fronts {
		f.beginView()
	}
	s.wake()
	return fronts
}
