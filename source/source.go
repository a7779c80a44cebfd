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

// List is a list being read. It must be used by one goroutine only.
type List[T object.Head] struct {
	// Items yields each item as it arrives, across all pages. Ranging over it, which is possible only once,
	// sends the request. An error ends the iteration; the list is then incomplete.
	Items iter.Seq2[T, error]

	// Meta is the list's metadata. It is complete once Items has ended without an error; Continue is then
	// empty and RemainingItemCount nil. Between the end of the first page and the end of Items, these two
	// fields have the first page's values. ResourceVersion is the first page's, so a watch from it misses no
	// changes.
	Meta *metav1.ListMeta
}

// ListerWatcher lists and watches a resource for a reflector. A rest.Resource provides one, and tests can
// implement it in a few lines.
//
// A wrapper should embed its source, pass on the Request, and change the Description as little as possible.
// If it inspects or modifies objects, it should use Description.Plain.
type ListerWatcher interface {
	// List returns a list that is read lazily.
	List(context.Context, Request) List[object.Head]

	// Watch opens a watch and returns once the server has accepted it. The connection stays open until the
	// iteration ends or ctx is done, so the caller must iterate or cancel ctx.
	Watch(context.Context, Request) (iter.Seq2[wire.Event[object.Head], error], error)

	// Describe describes the source. It must return immediately. Only the Name may change.
	Describe() Description
}

// Request describes a list or watch requested from a source. The zero value requests everything. Every source
// supports the API's list options and the fields that its Description declares; Complete implements the
// others.
type Request struct {
	metav1.ListOptions

	// Namespace limits the request to one namespace; metav1.NamespaceAll means all of the source's
	// namespaces. If the kind is cluster-scoped, a request for a namespace fails with ErrNotNamespaced.
	Namespace string

	// Known, if not nil, returns the caller's objects, in the requested form. If a list item or a watch's
	// initial event has the same UID and resource version as such an object, the source yields that very
	// object.
	Known wire.Cached

	// Wanted, if not nil, filters objects: lists omit rejected objects, and watch events for them carry only
	// their names (see wire.Event.Passed). It is called for every listed object, and for every event except
	// bookmarks, with the object's head as it is on the server, which it must not retain. Calls may be
	// concurrent. It must not block. Its result for an object may change over time.
	Wanted func(object.Head) bool

	// VersionOnly says that the caller needs only the list's version. The source may then yield any of its items,
	// or none, and need not read more than one page. Filtered does not filter then; otherwise, the caller would have
	// to read page after page until it gets an item. A wrapper must not call a user's function for such an item.
	VersionOnly bool

	// Skipped, if not nil, is called for each listed object that the source reads but does not yield, because
	// of VersionOnly or Filtered. Calls may be concurrent.
	Skipped func()

	// Selection asks the server to select objects. The source and the server may ignore it.
	Selection Selection

	// Packer, if not nil, is a *wire.Packer. Each object is then a *wire.Packed created by it.
	Packer wire.PackerRef
}

// Selection asks an API server to select objects by ranges of hashes (KEP-5866). Servers that do not support
// such selectors ignore them, and so may sources. A caller that wants only the selected objects must
// therefore also filter them (see Request.Wanted).
type Selection struct {
	// Selector is sent to the server; empty for everything.
	Selector string

	// Answered, if not nil, is called when the server has accepted a request. Its argument is
	// SelectedByServer or NotSelected if this is known: at the end of a list, and when the server rejects the
	// selector and the source repeats the request without it. It must return quickly.
	Answered func(SelectedBy)
}

// Tell calls Answered, if it is set.
func (s Selection) Tell(by SelectedBy) {
	if s.Answered != nil {
		s.Answered(by)
	}
}

// SelectedBy indicates whether the server selected the objects in its response.
type SelectedBy uint8

const (
	// SelectionNotTold means that the response does not indicate this, for example because it is a watch.
	SelectionNotTold SelectedBy = iota
	// SelectedByServer means that the server selected the list's items.
	SelectedByServer
	// NotSelected means that the server does not support selecting objects, or does not support this
	// selector.
	NotSelected
)

// IsNil reports whether o is nil or contains a nil pointer. A source must not yield such an object.
func IsNil(o object.Head) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// ErrNotNamespaced means that a request specifies a namespace although the kind is cluster-scoped.
var ErrNotNamespaced = errors.New("not namespaced")

// ResolveError means that a request was not sent because the kind's endpoint is unknown: the Go type is not
// in the scheme, discovery failed, or the server does not serve the kind.
type ResolveError struct {
	Kind object.GVK // empty if the Go type has none
	Err  error
}

func (e *ResolveError) Error() string {
	if e.Kind.Empty() {
		return fmt.Sprintf("find the resource: %v", e.Err)
	}
	return fmt.Sprintf("find the resource of %s %s: %v", e.Kind.GroupVersion(), e.Kind.Kind, e.Err)
}

func (e *ResolveError) Unwrap() error { return e.Err }

// TypeError means that a source yielded an object whose Go type its informer does not accept.
type TypeError struct {
	Have, Want reflect.Type // nil for a nil object
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("the source yields a %v, want a %v: use the source's type for the informer", e.Have, e.Want)
}

// MaxRetryAfter is the longest wait that RetryAfter returns. A proxy's error page may ask for a day, and no
// client should sleep that long.
const MaxRetryAfter = time.Minute

// RetryAfter returns how long the server asked to wait before repeating the call that failed with err, in
// whole seconds and up to MaxRetryAfter. It returns false if the server did not ask the client to wait, or
// asked for zero seconds. The server may specify the wait in seconds, as a date, or in the body.
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
