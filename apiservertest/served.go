package apiservertest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
)

// AddResource starts serving r, as when a CustomResourceDefinition is created.
func (s *cluster) AddResource(r Resource) error {
	if err := r.complete(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.collections[r.GVR]; exists {
		return fmt.Errorf("resource %v is served already", r.GVR)
	}
	c := newCollection(r, s.types, s.rv)
	if len(r.Schema) > 0 {
		if _, err := c.owners(); err != nil {
			return fmt.Errorf("resource %v: %w", r.GVR, err)
		}
	}
	s.collections[r.GVR] = c
	if !r.untyped() {
		s.byType[r.goType()] = c
	}
	return nil
}

// RemoveResource stops serving a resource, as when a CustomResourceDefinition is deleted: its objects are
// deleted, its watches end after the deletions have been sent, and further requests get a 404.
func (s *cluster) RemoveResource(gvr object.GVR) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, exists := s.collections[gvr]
	if !exists {
		return fmt.Errorf("resource %v is not served", gvr)
	}
	delete(s.collections, gvr)
	delete(s.byType, c.goType())
	for _, v := range c.now("", "") {
		s.remove(c, v)
	}
	c.end()
	return nil
}

// ReplaceResource replaces a custom resource with r, as when an update to a CustomResourceDefinition
// changes its version, kind or subresources. It keeps the objects with their UIDs and resource versions;
// only their kind changes. Watches on the old resource end, and r starts without any history. As on a real
// server, the scope must remain the same; to change it, remove the resource and add it again, which
// deletes the objects.
func (s *cluster) ReplaceResource(gvr object.GVR, r Resource) error {
	if err := r.complete(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.collections[gvr]
	switch {
	case !exists:
		return fmt.Errorf("resource %v is not served", gvr)
	case !old.untyped() || !r.untyped():
		return fmt.Errorf("replace resource %v with %v: both must be custom resources without a Go type", gvr, r.GVR)
	case old.Namespaced != r.Namespaced:
		return fmt.Errorf("replace resource %v with %v: one is namespaced and the other is not; use RemoveResource and AddResource", gvr, r.GVR)
	}
	if _, exists := s.collections[r.GVR]; exists && r.GVR != gvr {
		return fmt.Errorf("resource %v is served already", r.GVR)
	}
	c := newCollection(r, s.types, s.rv)
	if len(r.Schema) > 0 {
		if _, err := c.owners(); err != nil {
			return fmt.Errorf("resource %v: %w", r.GVR, err)
		}
	}
	c.last, c.paths = old.last, slices.Clone(old.paths)
	for path, v := range old.objects {
		obj := clone(v.obj).(*unstructured.Unstructured)
		obj.SetGroupVersionKind(r.GVK())
		c.objects[path] = &version{res: &c.Resource, rv: v.rv, path: path, obj: obj}
	}
	delete(s.collections, gvr)
	s.collections[r.GVR] = c
	old.end()
	return nil
}
