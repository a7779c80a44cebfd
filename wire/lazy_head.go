package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// lazyHead is the head of an object that has not been decoded yet. It is passed to the filter function, and
// reads only the fields that the function accesses. Its strings point into the object's bytes. It is not safe
// for concurrent use, and is reused for each object.
type lazyHead struct {
	wanted  func(object.Head) bool
	decoder *decoder

	object.Version
	item frame.Item

	loaded      bool // the fields below are set
	head        head.Head
	labels      map[string]string
	annotations map[string]string
	decoded     object.Object // used instead of head if the bytes are unusual
	err         error         // from decoding
}

// newLazyHead returns a lazyHead for one goroutine, or nil if there is no filter.
func newLazyHead(d *decoder) *lazyHead {
	if d.wanted == nil {
		return nil
	}
	return &lazyHead{wanted: d.wanted, decoder: d}
}

// excludes reports whether the filter rejects an object, and returns its version. It fails if the object must be decoded
// for the filter, including the fields that are not kept, and cannot be.
func (h *lazyHead) excludes(i frame.Item) (v object.Version, excluded bool, err error) {
	if h == nil {
		return v, false, nil
	}
	defer h.reset()
	h.item = i
	var identified bool
	if h.Version, identified = h.decoder.identify(i); !identified {
		if h.decode(); h.err != nil {
			return v, false, h.err
		}
		h.Version = object.VersionOf(h.decoded)
	}
	if h.wanted(h) || h.err != nil {
		return v, false, h.err
	}
	return h.Version, true, nil
}

// reset drops all references to the object.
func (h *lazyHead) reset() {
	h.head.Reset()
	*h = lazyHead{wanted: h.wanted, decoder: h.decoder, head: h.head, labels: emptied(h.labels), annotations: emptied(h.annotations)}
}

// maxReusedPairs is the maximum number of labels or annotations whose map is reused.
const maxReusedPairs = 64

// emptied returns the empty map, or nil if it is large, because an empty map keeps its memory.
func emptied(pairs map[string]string) map[string]string {
	if len(pairs) > maxReusedPairs {
		return nil
	}
	clear(pairs)
	return pairs
}

// decode decodes the object if its head is unusual.
func (h *lazyHead) decode() {
	h.loaded = true
	if h.decoded, h.err = h.decoder.decodeWhole(h.item); h.err == nil && h.decoded.GetName() == "" {
		h.err = ErrNoName
	}
	if h.err != nil {
		h.decoded = new(metav1.PartialObjectMetadata)
	}
}

// load reads the rest of the head. It returns the object if it had to be decoded.
func (h *lazyHead) load() (decoded object.Object) {
	if !h.loaded {
		h.loaded, h.head.WantsAll = true, true
		if !h.decoder.readHead(&h.head, h.item) {
			h.decode()
		}
	}
	return h.decoded
}

// GetNamespace implements object.Head, as do the methods below.
func (h *lazyHead) GetNamespace() string { return h.Key.Namespace }

// GetName does not load the rest of the head.
func (h *lazyHead) GetName() string { return h.Key.Name }

// GetUID does not load the rest of the head.
func (h *lazyHead) GetUID() types.UID { return h.UID }

// GetResourceVersion does not load the rest of the head.
func (h *lazyHead) GetResourceVersion() string { return h.RV }

// GetGeneration loads the rest of the head.
func (h *lazyHead) GetGeneration() int64 {
	if o := h.load(); o != nil {
		return o.GetGeneration()
	}
	return h.head.Generation
}

// GetDeletionTimestamp loads the rest of the head.
func (h *lazyHead) GetDeletionTimestamp() *metav1.Time {
	if o := h.load(); o != nil {
		return o.GetDeletionTimestamp()
	}
	return h.head.Deleted
}

// GetLabels loads the rest of the head.
func (h *lazyHead) GetLabels() map[string]string {
	if o := h.load(); o != nil {
		return o.GetLabels()
	}
	return asMap(&h.labels, h.head.Labels)
}

// GetAnnotations loads the rest of the head.
func (h *lazyHead) GetAnnotations() map[string]string {
	if o := h.load(); o != nil {
		return o.GetAnnotations()
	}
	return asMap(&h.annotations, h.head.Annotations)
}

// GetOwnerReferences loads the rest of the head.
func (h *lazyHead) GetOwnerReferences() []metav1.OwnerReference {
	if o := h.load(); o != nil {
		return o.GetOwnerReferences()
	}
	return h.head.Owners
}

// asMap returns pairs as a map. It reuses the previous object's map.
func asMap(reused *map[string]string, pairs []head.Label) map[string]string {
	if *reused == nil && len(pairs) > 0 {
		*reused = make(map[string]string, len(pairs))
	}
	for _, p := range pairs {
		(*reused)[p.Key] = p.Value
	}
	return *reused
}
