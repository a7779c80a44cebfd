package wire

import (
	"fmt"
	"io"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// A Decoder turns bodies of one media type into objects. It separates
// the transport from the bytes: rest uses it and knows nothing of encodings. A
// Decoder is safe for concurrent use. Each iterator it returns belongs to one
// goroutine and can be ranged over once.
type Decoder interface {
	// Object decodes a body that holds one object.
	Object(body []byte) (object.Head, error)

	// List decodes a list body item by item while it arrives. When the iteration
	// ends without an error, meta holds the list's own metadata. A body that ends
	// early is an error, never a shorter list. If cached returns an object with an
	// item's UID and resource version, List yields that object and does not look
	// at the item any further. cached may be nil.
	List(body io.Reader, meta *metav1.ListMeta, cached Cached) iter.Seq2[object.Head, error]

	// Watch decodes a watch stream frame by frame. If the stream ends between two
	// frames, the iteration ends without an error. An ERROR event ends it with the
	// API server's *errors.StatusError, and a frame that cannot be decoded ends it
	// with an *Error. In ADDED events cached objects are reused as in List, because
	// a streaming list begins with such events. Other events are newer than
	// anything the caller has.
	Watch(body io.Reader, cached Cached) iter.Seq2[Event[object.Head], error]

	// WithFilter returns a decoder that leaves out the objects for which wanted returns false: lists
	// lack them, and their events have no object but its name (Event.Passed). wanted is called
	// for every item of a list and for the object of every event but a bookmark, with a
	// head that it must not keep, before anything else of the object is read and whatever
	// Options.Keep says. The rest of an unwanted object is not checked. wanted may be called from
	// any goroutine, and must not block.
	WithFilter(wanted func(object.Head) bool) Decoder

	// OnSelector returns a decoder that calls told at the end of each list that the server has
	// filtered by a selector, with that selector (shardInfo, KEP-5866).
	OnSelector(told func(selector string)) Decoder
}

// Cached returns the object that the caller of a Decoder already has under a key.
// If the server sends the same version again, it is not decoded and the caller
// gets its own object back. Cached may be called from any goroutine. It must not
// block, because the body is not read while it runs. It must not keep the key, because
// the key's text lies in a buffer that is reused.
type Cached func(key object.Key) (object.Head, bool)

// item is what a decoder has made of an item of a list.
type item struct {
	object   object.Head
	noKind   bool // the bytes do not name it
	excluded bool // it is not wanted, and there is no object
}

// An Event is one frame of a watch: what happened, and the object afterwards, or
// for a deletion before it. A bookmark's object has only a resource version and
// perhaps annotations.
type Event[T object.Head] struct {
	Type     watch.EventType
	Object   T
	Bytes    int       // size of the frame on the wire
	Received time.Time // when the frame's last byte had been read
	Decoded  time.Time // when Object was ready

	// Passed, if not nil, names an object that is not wanted (see source.Request), and there
	// is no Object.
	Passed *object.Version
}

// Namespace is that of the object, or of what passed.
func (e Event[T]) Namespace() string {
	if e.Passed != nil {
		return e.Passed.Key.Namespace
	}
	return e.Object.GetNamespace()
}

// eventType checks the type of an event.
func eventType(s string) (watch.EventType, error) {
	switch t := watch.EventType(s); t {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return t, nil
	}
	return "", fmt.Errorf("%w %q", ErrEventType, fault.Excerpt(s))
}
