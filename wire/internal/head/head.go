// Package head represents the head of an object that is packed without being decoded. Packages
// json and protobuf fill it in.
package head

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// Identity identifies an object, its version and its kind. Its strings point into the bytes it
// was read from. Strings that are missing from the bytes are empty.
type Identity struct {
	APIVersion, Kind         string
	Namespace, Name, UID, RV string
}

// Version returns the key, UID and resource version.
func (i Identity) Version() object.Version {
	return object.Version{Key: object.Key{Namespace: i.Namespace, Name: i.Name}, UID: types.UID(i.UID), RV: i.RV}
}

// Head is the head of a packed object. Its strings point into the bytes it was read from. It is not safe for
// concurrent use. It can be reused.
type Head struct {
	Identity

	Labels    []Label
	HasLabels bool // the object has the field, which may be empty
	Owners    []metav1.OwnerReference
	HasOwners bool

	Generation int64
	Deleted    *metav1.Time // usually nil

	Wanted      []string // annotation keys, set by the caller
	WantsAll    bool     // the caller wants all annotations
	Annotations []Label  // the wanted annotations that the object has

	yes, no bool // targets for the pointers in owners
	time    metav1.Time
}

// Label is a label or an annotation.
type Label struct{ Key, Value string }

// Reset clears the head and drops all references.
func (h *Head) Reset() {
	clear(h.Labels)
	clear(h.Owners)
	clear(h.Annotations)
	*h = Head{Labels: h.Labels[:0], Owners: h.Owners[:0], Annotations: h.Annotations[:0]}
	if cap(h.Labels) > maxReused {
		h.Labels = nil
	}
	if cap(h.Annotations) > maxReused {
		h.Annotations = nil
	}
	if cap(h.Owners) > maxReused {
		h.Owners = nil
	}
}

// maxReused is the maximum number of labels, annotations or owners whose memory Reset keeps.
const maxReused = 64

// BoolPtr returns a pointer to on.
func (h *Head) BoolPtr(on bool) *bool {
	if on {
		h.yes = true
		return &h.yes
	}
	return &h.no
}

// SetDeleted sets the time of the deletion request.
func (h *Head) SetDeleted(at metav1.Time) { h.time, h.Deleted = at, &h.time }

// WantsAnnotation reports whether the annotation is wanted.
func (h *Head) WantsAnnotation(key []byte) bool {
	return h.WantsAll || slices.ContainsFunc(h.Wanted, func(wanted string) bool { return wanted == string(key) })
}

// Annotation returns a wanted annotation.
func (h *Head) Annotation(key string) (value string, ok bool) {
	for i := range h.Annotations {
		if h.Annotations[i].Key == key {
			return h.Annotations[i].Value, true
		}
	}
	return "", false
}
