package apiservertest

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/object"
)

// The methods of this file reach the store without HTTP: no authorization, no
// faults, no counting, no lag. They take the object's resource from its Go type, or
// from its kind where it is unstructured. What they are given is copied.

// Create stores a new object as it is given, its status included, and returns
// a copy of what was stored. It fails with AlreadyExists.
func (s *Server) Create(obj object.Object) (object.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.collectionOf(obj)
	if err != nil {
		return nil, err
	}
	if obj.GetName() == "" {
		return nil, fmt.Errorf("create %s: the object has no name", c.GVR.Resource)
	}
	r := s.readings[c.GVR]
	obj = clone(obj)
	r.applyDefaults(obj)
	v, err := s.insert(c, obj)
	if err != nil {
		return nil, err
	}
	return clone(v.readAs(r).obj), nil
}

// Update stores obj, its status included, over the object of the same key. A
// resource version in obj must be the stored one, else it fails with
// Conflict; without one it always wins. It fails with NotFound. An update
// without any change stores nothing. Where the stored object has managed fields,
// what the update changes belongs to the manager "test" from then on.
func (s *Server) Update(obj object.Object) (object.Object, error) {
	c, err := s.takes(obj)
	if err != nil {
		return nil, err
	}
	v, err := s.swap(c, object.KeyOf(obj), "", func(cur *version) (object.Object, error) {
		if rv := obj.GetResourceVersion(); rv != "" && rv != cur.obj.GetResourceVersion() {
			return nil, conflict(c, obj.GetName())
		}
		if len(cur.obj.GetManagedFields()) == 0 {
			return clone(obj), nil
		}
		owners, err := c.owners()
		if err != nil {
			return nil, err
		}
		return owners.whole.Update(clone(cur.obj), clone(obj), directManager)
	})
	if err != nil {
		return nil, err
	}
	return clone(v.obj), nil
}

// takes returns where obj is to be stored.
func (s *Server) takes(obj object.Object) (*collection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collectionOf(obj)
}

// Put stores obj whether it exists or not, and whatever its version. Where the stored object is
// being deleted and obj lets its last finalizer go, it is gone; an obj that has neither a UID nor a
// deletion timestamp is then stored as a new one.
func (s *Server) Put(obj object.Object) (object.Object, error) {
	if _, err := s.takes(obj); err != nil {
		return nil, err
	}
	obj = clone(obj)
	obj.SetResourceVersion("")
	stored, err := s.Update(obj)
	isNew := obj.GetUID() == "" && obj.GetDeletionTimestamp() == nil
	gone := err == nil && stored.GetDeletionTimestamp() != nil && len(stored.GetFinalizers()) == 0
	if apierrors.IsNotFound(err) || isNew && gone {
		return s.Create(obj)
	}
	return stored, err
}

// Delete deletes an object, or marks it where finalizers hold it. It fails
// with NotFound.
func (s *cluster) Delete(gvr object.GVR, key object.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, cur, err := s.lookup(gvr, key)
	if err != nil {
		return err
	}
	s.release(c, cur)
	return nil
}

// Get returns a copy of a stored object. It fails with NotFound.
func (s *Server) Get(gvr object.GVR, key object.Key) (object.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, cur, err := s.lookup(gvr, key)
	if err != nil {
		return nil, err
	}
	return clone(cur.readAs(s.readings[gvr]).obj), nil
}

// Objects returns all objects of a resource, in list order. They are the
// stored ones and must not be changed. It is nil for a resource that is not
// served.
func (s *Server) Objects(gvr object.GVR) []object.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.collections[gvr]
	if !ok {
		return nil
	}
	objs := make([]object.Object, 0, len(c.paths))
	for _, path := range c.paths {
		objs = append(objs, c.objects[path].readAs(s.readings[gvr]).obj)
	}
	return objs
}

// RV is the resource version of the newest change of any resource.
func (s *cluster) RV() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatRV(s.rv)
}

// RVOf is the resource version of the newest change of one resource; empty
// where it is not served.
func (s *cluster) RVOf(gvr object.GVR) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.collections[gvr]
	if !ok {
		return ""
	}
	return formatRV(c.last)
}

// lookup finds an object. The mutex must be held.
func (s *cluster) lookup(gvr object.GVR, key object.Key) (*collection, *version, error) {
	c, ok := s.collections[gvr]
	if !ok {
		return nil, nil, fmt.Errorf("resource %v is not served, add it with AddResource", gvr)
	}
	cur, err := c.stored(key)
	return c, cur, err
}

func conflict(c *collection, name string) error {
	return apierrors.NewConflict(c.GroupResource(), name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

func clone(obj object.Object) object.Object { return obj.DeepCopyObject().(object.Object) }
