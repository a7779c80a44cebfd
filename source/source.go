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

// List is a list being read. It belongs to one goroutine.
type List[T object.Head] struct {
	// Items yields each item as it arrives, across pages. It can be ranged over once, which sends
	// the request. An error ends it; the list is then incomplete.
	Items iter.Seq2[T, error]

	// Meta is the metadata of the list. It is complete when Items has ended without an error; Continue
	// is then empty and RemainingItemCount nil. From the end of the first page until then, these two
	// fields are those of the first page. ResourceVersion is that of the first page, so a watch from it
	// misses nothing.
	Meta *metav1.ListMeta
}

// ListerWatcher lists and watches a resource for a reflector. A rest.Resource provides one; a test can
// implement it in a few lines.
//
// A wrapper embeds its source, passes the Request on, and changes the Description as little as
// possible. If it inspects or modifies objects, it uses Description.Plain.
type ListerWatcher interface {
	// List returns a list that is read on demand.
	List(context.Context, Request) List[object.Head]

	// Watch opens a watch and returns when the server has accepted it. The connection stays open until
	// the iteration ends or ctx is done, so the caller must iterate or cancel ctx.
	Watch(context.Context, Request) (iter.Seq2[wire.Event[object.Head], error], error)

	// Describe describes the source. It must return immediately. Only the Name may change.
	Describe() Description
}

// Request asks a source for a list or a watch. The zero value asks for everything. Every source supports
// the options of the API and the fields that its Description declares; Complete implements the others.
type Request struct {
	metav1.ListOptions

	// Namespace limits the request to one namespace; metav1.NamespaceAll means all namespaces of
	// the source. If the kind is cluster-scoped, a request for a namespace fails with
	// ErrNotNamespaced.
	Namespace string

	// Known, if not nil, returns the caller's objects, in the requested form. If an item of a list or an
	// initial event of a watch has the same UID and resource version as such an object, the source
	// yields that very object.
	Known wire.Cached

	// Wanted, if not nil, filters objects: a list omits the rejected ones, and in a watch their events
	// have only their names (see wire.Event.Passed). It is called for every object of a list, and for
	// the object of every event except bookmarks, with the head of the object as the server has it,
	// which it must not retain. Calls may be concurrent. It must not block, and its result for an object
	// may change.
	Wanted func(object.Head) bool

	// Selection asks the server to select objects. The source and the server may ignore it.
	Selection Selection

	// Packer, if not nil, is a *wire.Packer. Each object is then a *wire.Packed made by it.
	Packer wire.PackerRef
}

// Selection asks an API server to select objects by ranges of hashes (KEP-5866). Servers that do not
// know such selectors ignore them, and sources may do so too. A caller that wants only the selected
// objects must therefore also filter them (see Request.Wanted).
type Selection struct {
	// Selector is sent to the server; empty for everything.
	Selector string

	// Answered, if not nil, is called when the server has accepted a request. Its argument is
	// SelectedByServer or NotSelected if the answer says which. It does at the end of a list, and when
	// the server rejects the selector and the source repeats the request without it. It must return
	// quickly.
	Answered func(SelectedBy)
}

// Tell calls Answered, if it is set.
func (s Selection) Tell(by SelectedBy) {
	if s.Answered != nil {
		s.Answered(by)
	}
}

// SelectedBy says whether the server selected the objects of an answer.
type SelectedBy uint8

const (
	// SelectionNotTold means that the answer does not say, as for a watch.
	SelectionNotTold SelectedBy = iota
	// SelectedByServer means that the server has selected the items of a list.
	SelectedByServer
	// NotSelected means that the server does not select objects, or does not support this selector.
	NotSelected
)

// IsNil reports whether o is nil, or holds a nil pointer. A source must not yield such an object.
func IsNil(o object.Head) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// ErrNotNamespaced means that a request names a namespace although the kind is cluster-scoped.
var ErrNotNamespaced = errors.New("not namespaced")

// ResolveError means that a request was not sent because it is unknown where the kind is served:
// the Go type is not in the scheme, discovery failed, or the server does not serve the kind.
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

// TypeError means that a source yielded an object of a Go type that its informer does not accept.
type TypeError struct {
	Have, Want reflect.Type // nil for a nil object
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("the source yields a %v, want a %v: give the informer the type of its source", e.Have, e.Want)
}

// MaxRetryAfter is the longest wait that RetryAfter returns. A proxy's page may ask for a day, and
// no client should sleep that long.
const MaxRetryAfter = time.Minute

// RetryAfter returns how long the server asked to wait before repeating the call that failed with err,
// in whole seconds and up to MaxRetryAfter. It returns false if the server did not ask, or asked for no
// wait. The server may ask in seconds, with a date, or in the body.
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
