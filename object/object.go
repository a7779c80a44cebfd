package object

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Object is any API object: metadata that can be read and written, and a kind. It is the constraint on
// type parameters throughout the stack. The type is a pointer to an API type such as *corev1.Pod,
// *unstructured.Unstructured, *metav1.PartialObjectMetadata, or Object itself if kinds are mixed.
type Object interface {
	metav1.Object
	runtime.Object
}

// Head is the part of an object that is enough for most decisions. Every Object is a Head, and so is an
// object that is held as bytes, such as a wire.Packed. Labels, annotations, owners and the deletion
// timestamp are shared and must not be modified.
type Head interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
	GetGeneration() int64
	GetDeletionTimestamp() *metav1.Time
	GetLabels() map[string]string
	GetAnnotations() map[string]string
	GetOwnerReferences() []metav1.OwnerReference
}

// Version identifies one state of one object.
type Version struct {
	Key Key
	UID types.UID
	RV  string
}

// Clone returns a copy of v whose strings share one new allocation.
func (v Version) Clone() Version {
	namespace := len(v.Key.Namespace)
	name := namespace + len(v.Key.Name)
	uid := name + len(v.UID)
	all := v.Key.Namespace + v.Key.Name + string(v.UID) + v.RV
	return Version{Key: Key{Namespace: all[:namespace], Name: all[namespace:name]}, UID: types.UID(all[name:uid]), RV: all[uid:]}
}

// VersionOf returns the Version of o.
func VersionOf(o Head) Version {
	return Version{Key: KeyOf(o), UID: o.GetUID(), RV: o.GetResourceVersion()}
}

// Labels returns the labels of o for a selector. Unlike GetLabels, it does not build a map if o is
// held as bytes.
func Labels(o Head) labels.Labels {
	if packed, is := o.(interface{ Labels() labels.Labels }); is {
		return packed.Labels()
	}
	return labels.Set(o.GetLabels())
}

// Annotation returns one annotation of o. Unlike GetAnnotations, it does not open an object held as
// bytes if its cache keeps the annotation (see sharedinformer.Options.Annotations).
func Annotation(o Head, key string) (value string, ok bool) {
	if packed, is := o.(interface {
		GetAnnotation(key string) (string, bool)
	}); is {
		return packed.GetAnnotation(key)
	}
	value, ok = o.GetAnnotations()[key]
	return value, ok
}

// Key identifies an object within its resource. It is comparable, and its String method returns
// namespace/name, with a leading slash for cluster-scoped objects.
type Key = types.NamespacedName

// KeyOf returns the key of o.
func KeyOf(o Head) Key {
	return Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// ParseKey parses "namespace/name", or "name" for a cluster-scoped object. It is the inverse of
// FormatKey and also accepts the leading slash of Key.String.
func ParseKey(s string) (Key, error) {
	namespace, name, found := strings.Cut(s, "/")
	if !found {
		namespace, name = "", s
	}
	if name == "" || strings.Contains(name, "/") {
		return Key{}, fmt.Errorf("object key %q: want \"namespace/name\", or \"name\" for a cluster-scoped object", s)
	}
	return Key{Namespace: namespace, Name: name}, nil
}

// FormatKey formats k as users write it: "namespace/name", or "name" for a cluster-scoped object.
func FormatKey(k Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// CompareRV compares two resource versions of one resource: negative if a is older than b, zero if
// they are equal, positive if a is newer. It fails if either is not a positive decimal integer;
// servers that comply with KEP-5504 never send such a version for a stored object.
func CompareRV(a, b string) (int, error) {
	return resourceversion.CompareResourceVersion(a, b)
}

// ReachedRV reports whether a cache at version have holds every change up to version want. Equal
// versions count as reached even if they cannot be ordered; different versions that cannot be ordered do
// not.
func ReachedRV(have, want string) bool {
	if have == want {
		return true
	}
	order, err := CompareRV(have, want)
	return err == nil && order >= 0
}
