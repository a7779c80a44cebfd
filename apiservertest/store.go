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

// put stores obj as the newest state for its key and takes ownership of it. The caller must hold the mutex.
func (s *cluster) put(c *collection, prev *version, obj object.Object) *version {
	s.rv++
	obj.SetResourceVersion(formatRV(s.rv))
	v := &version{res: &c.Resource, rv: s.rv, path: c.pathOf(object.KeyOf(obj)), obj: obj}
	s.log(c, &event{rv: s.rv, prev: prev, cur: v})
	return v
}

// remove deletes the object whose newest state is v. The caller must hold the mutex.
func (s *cluster) remove(c *collection, v *version) *version {
	s.rv++
	delete(s.logs.lines, v.obj.GetUID())
	last := v.at(s.rv)
	s.log(c, &event{rv: s.rv, prev: v, cur: last, gone: true})
	return last
}

// insert stores a new object. The caller must hold the mutex.
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

// prepareNew sets the server-controlled fields of a new object.
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

// replace replaces cur with obj and returns the resulting state. If they are equal, nothing changes; if obj
// removes the last finalizer of an object being deleted, the object is removed. The caller must hold the
// mutex.
func (s *cluster) replace(c *collection, cur *version, subresource string, obj object.Object) *version {
	old := cur.obj
	c.prepareNext(old, subresource, obj)
	if sameButTimes(old, obj) {
		return cur
	}
	if old.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		// Watchers receive the last stored state, which includes the finalizers. The response
		// contains the requested state at the old version.
		s.remove(c, cur)
		return &version{res: cur.res, rv: cur.rv, path: cur.path, obj: obj}
	}
	return s.put(c, cur, obj)
}

// prepareNext sets the server-controlled fields of an object that replaces old through a subresource.
func (c *collection) prepareNext(old object.Object, subresource string, obj object.Object) {
	stripKind(obj)
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	obj.SetGeneration(old.GetGeneration())
	annotated := c.annotationsCount && subresource != "status" && !equality.Semantic.DeepEqual(old.GetAnnotations(), obj.GetAnnotations())
	if c.Generation && (annotated || !sameSpec(old, obj, !c.Status && c.custom())) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	obj.SetResourceVersion(old.GetResourceVersion())
}

// swap replaces the stored object with the result of change, or does nothing if that is nil. As on a
// real server, change runs without a lock and is retried if another write gets in first.
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

// replaceIf replaces cur with obj. It returns nil if cur is no longer the stored state.
func (s *cluster) replaceIf(c *collection, cur *version, subresource string, obj object.Object) *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone || c.objects[cur.path] != cur {
		return nil
	}
	return s.replace(c, cur, subresource, obj)
}

// release deletes the object, or marks it as being deleted if it has finalizers. The
// caller must hold the mutex.
func (s *cluster) release(c *collection, cur *version) (v *version, gone bool) {
	if len(cur.obj.GetFinalizers()) == 0 {
		return s.remove(c, cur), true
	}
	if cur.obj.GetDeletionTimestamp() != nil {
		return cur, false
	}
	return s.put(c, cur, c.marked(cur)), false
}

// releaseMarked is like release, but for HTTP requests: it first marks a pod as being deleted, so
// watchers receive two events. The response contains the state before the deletion. A dry run returns
// the same response but changes nothing. The caller must hold the mutex.
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

// marked returns a copy of the object marked as being deleted.
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

// stripKind clears a typed object's kind, which the encoder adds from the resource. An unstructured object
// keeps its kind.
func stripKind(obj object.Object) {
	if _, ok := obj.(*unstructured.Unstructured); !ok {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
}

// sameSpec compares everything except metadata. It compares the status only if a custom resource has no status
// subresource.
func sameSpec(a, b object.Object, withStatus bool) bool {
	if ua, ok := a.(*unstructured.Unstructured); ok {
		return equality.Semantic.DeepEqual(specOf(ua, withStatus), specOf(b.(*unstructured.Unstructured), withStatus))
	}
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		if name := va.Type().Field(i).Name; name == "TypeMeta" || name == "ObjectMeta" || name == "Status" && !withStatus {
			continue
		}
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return false
		}
	}
	return true
}

func specOf(u *unstructured.Unstructured, withStatus bool) map[string]any {
	spec := map[string]any{}
	for field, value := range u.Object {
		if field != "metadata" && (field != "status" || withStatus) {
			spec[field] = value
		}
	}
	return spec
}

// copyStatus copies the status.
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

// stored returns the newest state for a key. The caller must hold the mutex.
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

// collectionOf looks up the collection for an object by its Go type or kind. The caller must hold the mutex.
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
	return nil, fmt.Errorf("object %T of kind %v: no such resource is served: add it with AddResource", obj, gvk)
}
