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

// A Decoder decodes bodies of one media type. It separates transport from encoding: package rest uses a
// Decoder and is independent of the encoding. A Decoder is safe for concurrent use. The iterators it returns
// are not safe for concurrent use, and can be ranged over once.
type Decoder interface {
	// Object decodes a body that contains one object.
	Object(body []byte) (object.Head, error)

	// List decodes a list body item by item while it arrives. If the iteration ends without an
	// error, meta contains the list's metadata. A body that ends early is an error, never a
	// shorter list. If cached returns an object with an item's UID and resource version, List
	// yields that object and does not decode the item. cached may be nil.
	List(body io.Reader, meta *metav1.ListMeta, cached Cached) iter.Seq2[object.Head, error]

	// Watch decodes a watch stream frame by frame. If the stream ends between two frames, the
	// iteration ends without an error. It ends with the API server's *errors.StatusError after an ERROR
	// event, and with an [*Error] after a malformed frame. For ADDED events, cached objects are reused as in
	// List, because a streaming list starts with such events. Other events are newer than any object the
	// caller has.
	Watch(body io.Reader, cached Cached) iter.Seq2[Event[object.Head], error]

	// WithFilter returns a decoder that leaves out the objects for which wanted returns false:
	// lists omit them, and events for them have [Event].Passed instead of an object. wanted is called for
	// every item in a list and for the object in every event except bookmarks, before the rest of the object
	// is read and regardless of Options.Keep. It must not retain the head. The rest of an unwanted object is
	// not checked. wanted may be called from any goroutine and must not block.
	WithFilter(wanted func(object.Head) bool) Decoder

	// OnSelector returns a decoder that calls told with the selector at the end of each list that the server
	// has filtered by one (shardInfo, KEP-5866).
	OnSelector(told func(selector string)) Decoder
}

// Cached returns the object that the caller of a [Decoder] already has for a key. If the server sends the
// same version again, it is not decoded and the caller gets its own object back. Cached may be called from
// any goroutine. It must not block, because the body is not read while it runs. It must not retain the
// key, whose strings point into a buffer that is reused.
type Cached func(key object.Key) (object.Head, bool)

// item is a decoded list item.
type item struct {
	object   object.Head
	noKind   bool // the bytes do not specify the kind
	excluded bool // the filter rejected it; there is no object
}

// An Event is one frame of a watch: the type of a change and the object after the change or, if it was
// deleted, before it. The object in a bookmark has only a resource version and possibly annotations.
type Event[T object.Head] struct {
	Type     watch.EventType
	Object   T
	Bytes    int       // the frame's size on the wire
	Received time.Time // when the frame's last byte was read
	Decoded  time.Time // when Object was ready

	// Passed, if not nil, identifies an object that the filter rejected (see source.Request).
	// Object is then unset.
	Passed *object.Version
}

// Namespace returns the object's namespace, even if the filter rejected it.
func (e Event[T]) Namespace() string {
	if e.Passed != nil {
		return e.Passed.Key.Namespace
	}
	return e.Object.GetNamespace()
}

// eventType returns s as an event type. It fails if s is unknown.
func eventType(s string) (watch.EventType, error) {
	switch t := watch.EventType(s); t {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return t, nil
	}
	return "", fmt.Errorf("%w %q", ErrEventType, fault.Excerpt(s))
}
