package wire

import (
	"fmt"
	"io"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// Decoder turns the bodies of one media type into objects of type T. It is
// the seam between the transport and the bytes: rest calls it and knows
// nothing of encodings. A Decoder is safe for concurrent use; the iterators
// that it returns belong to one goroutine each and can be ranged over once.
type Decoder[T object.Object] interface {
	// Object decodes a body that holds one object.
	Object(body []byte) (T, error)

	// List decodes a list body item by item while it arrives. The list's own
	// metadata is complete in meta when the iteration has ended without an
	// error; a body that ends early is an error, never a shorter list. An item
	// whose UID and resource version are those of the object that is known under
	// its key is not decoded, nor looked at any further: the known object itself
	// is yielded. known may be nil.
	List(body io.Reader, meta *metav1.ListMeta, known Known[T]) iter.Seq2[T, error]

	// Watch decodes a watch stream frame by frame. The iteration ends without
	// an error where the stream ends between two frames. An ERROR event ends
	// it with the API server's *errors.StatusError, and a frame that cannot
	// be decoded ends it with an *Error. Known objects take the place of those
	// of ADDED events as in List, since the initial events of a streaming list
	// are such; whatever else a watch brings is newer than what anybody knows.
	Watch(body io.Reader, known Known[T]) iter.Seq2[Event[T], error]
}

// Event is one frame of a watch: what happened, and the object as it is
// afterwards (before, for a deletion). A bookmark's object carries nothing but
// a resource version and perhaps annotations.
type Event[T object.Object] struct {
	Type     watch.EventType
	Object   T
	Bytes    int       // size of the frame
	Received time.Time // when its last byte had been read
	Decoded  time.Time // when Object was ready
}

// eventType checks the type of an event.
func eventType(s string) (watch.EventType, error) {
	switch t := watch.EventType(s); t {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return t, nil
	}
	return "", fmt.Errorf("%w %q", ErrEventType, excerpt(s))
}
