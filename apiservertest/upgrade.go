package apiservertest

import (
	"fmt"
	"sync"

	"github.com/millrace-dev/millrace/object"
)

// reading is how a server reads the stored objects of one resource.
type reading struct {
	defaults func(object.Object)
}

// readings are the ways in which one version has been read.
type readings struct {
	mu   sync.Mutex
	made map[*reading]*version
}

// readAs returns v as r reads it: v itself where r is nil.
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

// Upgrade makes the server one of another version, which knows another default
// for the objects of a resource: it reads what is stored with defaults applied, so
// that objects have another content at the same resource version, and applies them
// to what is created through it. It cuts every connection and begins the watch
// cache anew, as RestartCold does. The other servers of the cluster still read as
// before, as they do in the middle of a real upgrade. Nil takes it back.
//
// The function is called with objects of the resource that it may change, by
// several goroutines at once. It must do the same for the same object, and leave
// the metadata's name, namespace, UID and resource version alone.
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

// applyDefaults applies to a new object what Upgrade was given.
func (r *reading) applyDefaults(obj object.Object) {
	if r != nil {
		r.defaults(obj)
	}
}
