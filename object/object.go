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

// Object is any API object: accessible metadata plus a kind. It is used as the type parameter constraint
// throughout Millrace. The type argument is a pointer to an API type such as *corev1.Pod,
// *unstructured.Unstructured, *metav1.PartialObjectMetadata, or Object itself for mixed kinds.
type Object interface {
	metav1.Object
	runtime.Object
}

// Head is the subset of an object's metadata that most code needs. Every Object implements it, and so do
// objects stored in encoded form, such as a wire.Packed. The returned labels, annotations, owner
// references and deletion timestamp are shared and must not be modified.
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

// Version identifies one revision of one object.
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

// Labels returns o's labels in the form selectors match against. Unlike GetLabels, it does not build a
// map if o is stored in encoded form.
func Labels(o Head) labels.Labels {
	if packed, is := o.(interface{ Labels() labels.Labels }); is {
		return packed.Labels()
	}
	return labels.Set(o.GetLabels())
}

// Annotation returns the value of one of o's annotations. Unlike GetAnnotations, it does not decode an
// encoded object if the cache keeps the annotation separately (see sharedinformer.Options.Annotations).
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

// KeyOf returns o's key.
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

// CompareRV compares two resource versions of the same resource. The result is negative if a is older
// than b, zero if they are equal, and positive if a is newer. It fails if either is not a positive
// decimal integer; servers that implement KEP-5504 never send such versions for stored objects.
func CompareRV(a, b string) (int, error) {
	return resourceversion.CompareResourceVersion(a, b)
}

// ReachedRV reports whether a cache at version have includes every change up to version want. If the
// versions cannot be compared, it returns true only if they are equal.
func ReachedRV(have, want string) bool {
	if have == want {
		return true
	}
	order, err := CompareRV(have, want)
	return err == nil && order >= 0
}
