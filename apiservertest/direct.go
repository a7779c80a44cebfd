package apiservertest

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/object"
)

// The methods in this file access the store directly rather than over HTTP, bypassing authorization,
// faults, statistics and lag. They copy their arguments, and look up the resource by the object's Go type
// or, if it is unstructured, by its kind.

// Create stores a new object, including its status, and returns a copy of the stored object. It fails with
// AlreadyExists if the object exists.
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

// Update overwrites the stored object with obj's key, including its status. If obj has a resource version
// other than the stored one, Update fails with Conflict. It fails with NotFound if there is no such
// object. If nothing has changed, it does not store anything. If the stored object has managed fields,
// the manager "test" becomes the owner of the changed fields.
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

// takes returns the collection in which obj is stored.
func (s *Server) takes(obj object.Object) (*collection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collectionOf(obj)
}

// Put stores obj whether or not it exists, regardless of its version. If the stored object is being deleted
// and obj has no finalizers, the stored object is removed; if obj also has neither a UID nor a deletion
// timestamp, it is then stored as a new object.
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

// Delete deletes an object, or marks it as being deleted if it has finalizers. It fails with NotFound if
// there is no such object.
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

// Get returns a copy of a stored object. It fails with NotFound if there is no such object.
func (s *Server) Get(gvr object.GVR, key object.Key) (object.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, cur, err := s.lookup(gvr, key)
	if err != nil {
		return nil, err
	}
	return clone(cur.readAs(s.readings[gvr]).obj), nil
}

// Objects returns all objects of a resource, in list order, or nil if the resource is not served. The
// returned objects are the stored ones and must not be modified.
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

// RV returns the resource version of the newest change to any resource.
func (s *cluster) RV() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatRV(s.rv)
}

// RVOf returns the resource version of the newest change to a resource, or "" if it is not served.
func (s *cluster) RVOf(gvr object.GVR) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.collections[gvr]
	if !ok {
		return ""
	}
	return formatRV(c.last)
}

// lookup finds an object. The caller must hold the mutex.
func (s *cluster) lookup(gvr object.GVR, key object.Key) (*collection, *version, error) {
	c, ok := s.collections[gvr]
	if !ok {
		return nil, nil, fmt.Errorf("resource %v is not served: add it with AddResource", gvr)
	}
	cur, err := c.stored(key)
	return c, cur, err
}

func conflict(c *collection, name string) error {
	return apierrors.NewConflict(c.GroupResource(), name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

func clone(obj object.Object) object.Object { return obj.DeepCopyObject().(object.Object) }
