package apiservertest

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
)

// put stores obj, which from then on belongs to the store, as the newest
// state of its key. The mutex must be held.
func (s *cluster) put(c *collection, prev *version, obj object.Object) *version {
	s.rv++
	obj.SetResourceVersion(formatRV(s.rv))
	v := &version{res: &c.Resource, rv: s.rv, path: c.pathOf(object.KeyOf(obj)), obj: obj}
	s.log(c, &event{rv: s.rv, prev: prev, cur: v})
	return v
}

// remove deletes the object whose newest state is v. The mutex must be held.
func (s *cluster) remove(c *collection, v *version) *version {
	s.rv++
	delete(s.logs.lines, v.obj.GetUID())
	last := v.at(s.rv)
	s.log(c, &event{rv: s.rv, prev: v, cur: last, gone: true})
	return last
}

// insert stores a new object. The mutex must be held.
func (s *cluster) insert(c *collection, obj object.Object) (*version, error) {
	if c.gone {
		return nil, notServed()
	}
	key := object.KeyOf(obj)
	if _, exists := c.objects[c.pathOf(key)]; exists {
		return nil, apierrors.NewAlreadyExists(c.GroupResource(), obj.GetName())
	}
	return s.put(c, nil, s.prepareNew(c, obj)), nil
}

// prepareNew sets what the server decides about a new object.
func (s *cluster) prepareNew(c *collection, obj object.Object) object.Object {
	stripKind(obj)
	if obj.GetUID() == "" {
		obj.SetUID(s.newUID(c, obj))
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.Time{Time: time.Now().Truncate(time.Second)})
	}
	if c.Generation && obj.GetGeneration() == 0 {
		obj.SetGeneration(1)
	}
	if c.defaults != nil {
		c.defaults(obj)
	}
	return obj
}

// replace stores obj over cur: nothing happens where they are equal, and an
// object that waits for its last finalizer goes with it. The result is the
// state afterwards. The mutex must be held.
func (s *cluster) replace(c *collection, cur *version, subresource string, obj object.Object) *version {
	old := cur.obj
	c.prepareNext(old, subresource, obj)
	if sameButTimes(old, obj) {
		return cur
	}
	if old.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		// Watchers see the object as it was stored last, finalizers and all; the
		// answer shows what was asked for, at the old version.
		s.remove(c, cur)
		return &version{res: cur.res, rv: cur.rv, path: cur.path, obj: obj}
	}
	return s.put(c, cur, obj)
}

// prepareNext sets what the server decides about an object that replaces old by way of a
// subresource.
func (c *collection) prepareNext(old object.Object, subresource string, obj object.Object) {
	stripKind(obj)
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	obj.SetGeneration(old.GetGeneration())
	annotated := c.annotationsCount && subresource != "status" && !equality.Semantic.DeepEqual(old.GetAnnotations(), obj.GetAnnotations())
	if c.Generation && (annotated || !sameSpec(old, obj)) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	obj.SetResourceVersion(old.GetResourceVersion())
}

// swap replaces the stored object with what change makes of it; nil leaves it as it
// is. As on a real server the change is made without holding anything up, and made
// again where somebody else was faster.
func (s *cluster) swap(c *collection, key object.Key, subresource string, change func(cur *version) (object.Object, error)) (*version, error) {
	for {
		s.mu.Lock()
		cur, err := c.stored(key)
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		obj, err := change(cur)
		if obj == nil || err != nil {
			return cur, err
		}
		if v := s.replaceIf(c, cur, subresource, obj); v != nil {
			return v, nil
		}
	}
}

// replaceIf stores obj in the place of cur, unless that has been replaced meanwhile;
// it returns nil then.
func (s *cluster) replaceIf(c *collection, cur *version, subresource string, obj object.Object) *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone || c.objects[cur.path] != cur {
		return nil
	}
	return s.replace(c, cur, subresource, obj)
}

// release deletes the object, or marks it as being deleted where finalizers
// hold it. The mutex must be held.
func (s *cluster) release(c *collection, cur *version) (v *version, gone bool) {
	if len(cur.obj.GetFinalizers()) == 0 {
		return s.remove(c, cur), true
	}
	if cur.obj.GetDeletionTimestamp() != nil {
		return cur, false
	}
	return s.put(c, cur, c.marked(cur)), false
}

// releaseMarked is release for a request by HTTP: a pod is first marked as
// being deleted, so that watchers hear of two changes. The answer shows the state before
// the deletion. A dry run answers the same and changes nothing. The mutex must be held.
func (s *cluster) releaseMarked(c *collection, cur *version, dry bool) (v *version, gone bool) {
	gone = len(cur.obj.GetFinalizers()) == 0
	if cur.obj.GetDeletionTimestamp() == nil && (c.marksDeletion || !gone) {
		if obj := c.marked(cur); dry {
			cur = &version{res: cur.res, rv: cur.rv, path: cur.path, obj: obj}
		} else {
			cur = s.put(c, cur, obj)
		}
	}
	if gone && !dry {
		s.remove(c, cur)
	}
	return cur, gone
}

// marked is the object as one that is being deleted.
func (c *collection) marked(cur *version) object.Object {
	obj := cur.obj.DeepCopyObject().(object.Object)
	now, grace := metav1.Time{Time: time.Now().Truncate(time.Second)}, int64(0)
	obj.SetDeletionTimestamp(&now)
	obj.SetDeletionGracePeriodSeconds(&grace)
	if c.Generation {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	return obj
}

// stripKind clears the kind of a typed object: the resource knows it, and the
// encoder writes it. An unstructured object keeps it.
func stripKind(obj object.Object) {
	if _, ok := obj.(*unstructured.Unstructured); !ok {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
}

// sameSpec compares everything but metadata and status.
func sameSpec(a, b object.Object) bool {
	if ua, ok := a.(*unstructured.Unstructured); ok {
		return equality.Semantic.DeepEqual(specOf(ua), specOf(b.(*unstructured.Unstructured)))
	}
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		switch va.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return false
		}
	}
	return true
}

func specOf(u *unstructured.Unstructured) map[string]any {
	spec := map[string]any{}
	for field, value := range u.Object {
		if field != "metadata" && field != "status" {
			spec[field] = value
		}
	}
	return spec
}

// copyStatus gives to the status of from.
func copyStatus(to, from object.Object) {
	if u, ok := to.(*unstructured.Unstructured); ok {
		delete(u.Object, "status")
		if status, has := from.(*unstructured.Unstructured).Object["status"]; has {
			u.Object["status"] = status
		}
		return
	}
	field := reflect.ValueOf(to).Elem().FieldByName("Status")
	if field.IsValid() {
		field.Set(reflect.ValueOf(from).Elem().FieldByName("Status"))
	}
}

// stored gives the newest state of a key. The mutex must be held.
func (c *collection) stored(key object.Key) (*version, error) {
	if c.gone {
		return nil, notServed()
	}
	v, ok := c.objects[c.pathOf(key)]
	if !ok {
		return nil, apierrors.NewNotFound(c.GroupResource(), key.Name)
	}
	return v, nil
}

// collectionOf finds the resource of an object by its Go type or its kind.
// The mutex must be held.
func (s *cluster) collectionOf(obj object.Object) (*collection, error) {
	if v := reflect.ValueOf(obj); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("the object is nil")
	}
	if c, ok := s.byType[reflect.TypeOf(obj)]; ok {
		return c, nil
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	for _, c := range s.collections {
		if c.GVK() == gvk && c.goType() == reflect.TypeOf(obj) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("object %T of kind %v: no such resource is served, add it with AddResource", obj, gvk)
}
