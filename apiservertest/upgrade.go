package apiservertest

import (
	"fmt"
	"sync"

	"github.com/millrace-dev/millrace/object"
)

// reading defines how a server reads the stored objects of one resource.
type reading struct {
	defaults func(object.Object)
}

// readings caches the results of reading one [version].
type readings struct {
	mu   sync.Mutex
	made map[*reading]*version
}

// readAs returns v as read through r, or v itself if r is nil.
func (v *version) readAs(r *reading) *version {
	if r == nil {
		return v
	}
	v.readings.mu.Lock()
	defer v.readings.mu.Unlock()
	if made, ok := v.readings.made[r]; ok {
		return made
	}
	obj := clone(v.obj)
	r.defaults(obj)
	if v.readings.made == nil {
		v.readings.made = map[*reading]*version{}
	}
	made := &version{res: v.res, rv: v.rv, path: v.path, obj: obj}
	v.readings.made[r] = made
	return made
}

// Upgrade simulates a server of a different version, with different defaults for a resource's objects. The
// server applies defaults to stored objects when it reads them, so their content differs at the same
// resource version, and to new objects created through it. Upgrade cuts all connections and restarts the
// watch cache, like [Server.RestartCold]. The other servers in the cluster read objects as before, as they
// would in the middle of a real upgrade. If defaults is nil, Upgrade undoes an earlier upgrade.
//
// defaults is called concurrently, with copies that it may modify. defaults must be deterministic and
// must not change the name, namespace, UID or resource version.
func (s *Server) Upgrade(gvr object.GVR, defaults func(object.Object)) error {
	s.mu.Lock()
	if _, served := s.collections[gvr]; !served {
		s.mu.Unlock()
		return fmt.Errorf("upgrade: resource %v is not served", gvr)
	}
	delete(s.readings, gvr)
	if defaults != nil {
		s.readings[gvr] = &reading{defaults}
	}
	window := s.view.window
	s.mu.Unlock()
	s.RestartCold(window)
	return nil
}

// applyDefaults applies the defaults passed to [Server.Upgrade] to a new object.
func (r *reading) applyDefaults(obj object.Object) {
	if r != nil {
		r.defaults(obj)
	}
}
