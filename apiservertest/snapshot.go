package apiservertest

import (
	"maps"
	"reflect"
	"slices"

	"github.com/millrace-dev/millrace/object"
)

// Snapshot is the state of a cluster at one moment: its objects, its resources and
// its resource version. It never changes.
type Snapshot struct {
	rv      uint64
	shelves []shelf
}

// shelf is what a Snapshot has of one resource.
type shelf struct {
	resource Resource
	objects  map[string]*version
	paths    []string
	last     uint64
}

// RV is the resource version of the newest change in the snapshot.
func (p *Snapshot) RV() string { return formatRV(p.rv) }

// Snapshot keeps the present state, as a backup of etcd does.
func (s *cluster) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Snapshot{rv: s.rv}
	for _, c := range s.collections {
		p.shelves = append(p.shelves, shelf{c.Resource, maps.Clone(c.objects), slices.Clone(c.paths), c.last})
	}
	return p
}

// Restore goes back to the state of p, as the restore of a backup of etcd does:
// what has been written since is lost, and new writes use its resource versions
// again, for other changes. All servers of the cluster cut their connections and
// begin their watch caches at the version of p, before which nothing is known. UIDs
// are not used again. A server that is down stays down.
func (s *cluster) Restore(p *Snapshot) { s.RestoreBumped(p, 0) }

// RestoreBumped is Restore with the resource version raised by more than was written
// since, so that none is used again: what etcdutl snapshot restore does with
// --bump-revision and --mark-compacted, as the Kubernetes documentation asks for.
func (s *cluster) RestoreBumped(p *Snapshot, by uint64) {
	for _, f := range s.restore(p, by) {
		f.cut(errCut)
	}
}

// restore returns the servers that must cut their connections.
func (s *cluster) restore(p *Snapshot, by uint64) []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	rv := p.rv + by // before anything is changed: p may be nil
	for _, c := range s.collections {
		c.end()
	}
	s.collections, s.byType = map[object.GVR]*collection{}, map[reflect.Type]*collection{}
	s.rv, s.stamps = rv, nil
	for _, shelf := range p.shelves {
		c := newCollection(shelf.resource, s.types, s.rv)
		c.objects, c.paths, c.last = maps.Clone(shelf.objects), slices.Clone(shelf.paths), shelf.last
		s.collections[c.GVR] = c
		if !c.custom() {
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
