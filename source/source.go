package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// List is a list as it is being read. It belongs to one goroutine.
type List[T object.Head] struct {
	// Items yields each item as it arrives, following the pages. It can be
	// ranged over once; the request is sent when it is. An error ends it, and
	// what was yielded before is then not the whole list.
	Items iter.Seq2[T, error]

	// Meta is the metadata of the list, complete when Items has ended without
	// an error. Its Continue is empty then and its RemainingItemCount nil; before, from
	// the end of the first page on, they are those of that page. Its ResourceVersion is
	// that of the first page: a watch from there misses nothing.
	Meta *metav1.ListMeta
}

// ListerWatcher is what a reflector needs of a resource: to list it and to
// watch it. rest.Resource has one; a test makes its own in a few lines.
//
// A wrapper embeds its source, passes the Request on, and changes as little of the Description as it must. If
// it looks at the objects or changes them, it describes itself by Description.Plain.
type ListerWatcher interface {
	// List returns a list that is yet to be read.
	List(context.Context, Request) List[object.Head]

	// Watch opens a watch and returns when the server has accepted it. The
	// connection is held until the iteration ends or ctx is done; the
	// iteration must be begun or ctx cancelled.
	Watch(context.Context, Request) (iter.Seq2[wire.Event[object.Head], error], error)

	// Describe says what the source reads. It must return at once. All but the Name stays the same.
	Describe() Description
}

// Request asks a source for a list or a watch. The zero value asks for everything. The fields besides the
// options of the API are for sources that say in their Description that they do them; Complete does them for
// all others.
type Request struct {
	metav1.ListOptions

	// Namespace is the one whose objects are asked for; metav1.NamespaceAll for all that the source has.
	// Where the kind has no namespaces, the request fails with ErrNotNamespaced.
	Namespace string

	// Known, if not nil, has the objects that the caller has already, in the form that it asks for: the
	// items of a list and the initial events of a watch are these objects themselves where UID and
	// resource version are the same.
	Known wire.Cached

	// Wanted, if not nil, chooses objects: a list lacks those that it refuses, and in a watch their
	// events have no object but its name (see wire.Event.Passed). It is asked for every object of a
	// list, and for the object of every event but a bookmark, with the head of the object as the server
	// has it, which it must not keep. It may be called from several goroutines at once, must not block,
	// and may answer differently later.
	Wanted func(object.Head) bool

	// Selection is what the server is asked to leave out. It may be ignored.
	Selection Selection

	// Packer, if not nil, is a *wire.Packer: each object is a *wire.Packed that it has made.
	Packer wire.PackerRef
}

// Selection asks an API server to select objects by ranges of hashes (KEP-5866). Servers that do not know
// such selectors ignore them, and so may a source: a caller that wants only the selected objects must choose
// them as well (see Request.Wanted).
type Selection struct {
	// Selector is what the server is asked with; empty for everything.
	Selector string

	// Answered, if not nil, is called when the server has accepted a request. Its argument is
	// SelectedByServer or NotSelected where the answer tells which: a list does at its end, and a
	// refusal of the selector, after which the source asks without it. It must return soon.
	Answered func(SelectedBy)
}

// Tell calls Answered, if there is one.
func (s Selection) Tell(by SelectedBy) {
	if s.Answered != nil {
		s.Answered(by)
	}
}

// SelectedBy is what an answer says of its selection.
type SelectedBy uint8

const (
	// SelectionNotTold: the answer says nothing, as that to a watch.
	SelectionNotTold SelectedBy = iota
	// SelectedByServer: a list says that the server has selected what is in it.
	SelectedByServer
	// NotSelected: the server does not select, or not by this selector.
	NotSelected
)

// IsNil reports whether o is nil, or holds a nil pointer. A source must yield no such object.
func IsNil(o object.Head) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// ErrNotNamespaced: a namespace was asked of a kind that has none.
var ErrNotNamespaced = errors.New("not namespaced")

// ResolveError says that a request was not sent because it could not be told
// where the kind is served: the Go type is not in the scheme, discovery failed,
// or the server does not serve the kind.
type ResolveError struct {
	Kind object.GVK // empty where the Go type has none
	Err  error
}

// Error names the kind and the reason.
func (e *ResolveError) Error() string {
	if e.Kind.Empty() {
		return fmt.Sprintf("find the resource: %v", e.Err)
	}
	return fmt.Sprintf("find the resource of %s %s: %v", e.Kind.GroupVersion(), e.Kind.Kind, e.Err)
}

// Unwrap returns Err.
func (e *ResolveError) Unwrap() error { return e.Err }

// TypeError: a source yields an object of another Go type than its informer has.
type TypeError struct {
	Have, Want reflect.Type // nil for an object that is nil
}

// Error names both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("the source yields a %v, want a %v: give the informer the type of its source", e.Have, e.Want)
}

// MaxRetryAfter is the longest wait that RetryAfter reports. A proxy's page may ask
// for a day, which no client should sleep through.
const MaxRetryAfter = time.Minute

// RetryAfter returns how long the server asked to wait before the call that
// failed with err is made again, in whole seconds, and MaxRetryAfter at most. It
// reports false where the server did not ask, or asked for none. The server may
// have said it as seconds, as a date, or in the body.
func RetryAfter(err error) (time.Duration, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0, false
	}
	details := status.Status().Details
	if details == nil || details.RetryAfterSeconds <= 0 {
		return 0, false
	}
	return min(time.Duration(details.RetryAfterSeconds)*time.Second, MaxRetryAfter), true
}
