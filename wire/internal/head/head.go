// Package head holds the head of an object that is packed as it came: what is to be known
// of it without decoding it. Packages json and protobuf fill it in.
package head

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// Identity is which object an object is, in which version, and of which kind. Its strings refer to the
// bytes that it was read from. A string is empty if the bytes do not have it.
type Identity struct {
	APIVersion, Kind         string
	Namespace, Name, UID, RV string
}

// Version returns the object and its version.
func (i Identity) Version() object.Version {
	return object.Version{Key: object.Key{Namespace: i.Namespace, Name: i.Name}, UID: types.UID(i.UID), RV: i.RV}
}

// Head is what is known of a packed object. Its texts lie in the bytes that it was read
// from. It belongs to one goroutine, and is made to be used again.
type Head struct {
	Identity

	Labels    []Label
	HasLabels bool // there may also be none in them
	Owners    []metav1.OwnerReference
	HasOwners bool

	Generation int64
	Deleted    *metav1.Time // nil as a rule

	Wanted      []string // keys of annotations; set by who wants to know them
	WantsAll    bool     // all annotations are wanted
	Annotations []Label  // those of them that there are

	yes, no bool // what owners point to
	time    metav1.Time
}

// Label is a label or an annotation.
type Label struct{ Key, Value string }

// Reset makes the head an empty one, which refers to nothing.
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

// maxReused is for how many labels, annotations or owners Reset keeps room.
const maxReused = 64

// BoolPtr returns a pointer to true or to false.
func (h *Head) BoolPtr(on bool) *bool {
	if on {
		h.yes = true
		return &h.yes
	}
	return &h.no
}

// SetDeleted sets when the deletion was requested.
func (h *Head) SetDeleted(at metav1.Time) { h.time, h.Deleted = at, &h.time }

// WantsAnnotation reports whether the annotation is wanted.
func (h *Head) WantsAnnotation(key []byte) bool {
	return h.WantsAll || slices.ContainsFunc(h.Wanted, func(wanted string) bool { return wanted == string(key) })
}

// Annotation returns an annotation that was wanted.
func (h *Head) Annotation(key string) (value string, ok bool) {
	for i := range h.Annotations {
		if h.Annotations[i].Key == key {
			return h.Annotations[i].Value, true
		}
	}
	return "", false
}
