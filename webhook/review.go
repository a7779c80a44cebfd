package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// folded is a review whose lists and maps are still encoded, because a few bytes of JSON may take up far
// more memory once decoded.
type folded interface {
	// weight estimates the decoded size.
	weight() int64

	// unfold decodes the lists and maps.
	unfold() error
}

// errHeavy means that the lists and maps in a review are too large.
var errHeavy = errors.New("it contains too many objects, or too much data in one of them, or too many groups or extra values for its user")

// read decodes a review's body, which may contain at most limit bytes of JSON and use at most decoded
// bytes of memory. If read fails, it has already written the response. The caller must call release once it
// is done with the review.
func read(w http.ResponseWriter, r *http.Request, limit, decoded int64, held *budget, review folded) (release func(), ok bool) {
	body, taken, err := held.readAll(http.MaxBytesReader(w, r.Body, limit), limit)
	release = func() { held.give(taken) }
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, review)
	}
	if err == nil {
		weight := review.weight()
		more := max(0, weight-taken)
		switch {
		case weight > decoded:
			err = errHeavy
		case !held.take(more):
			err = errFull
		default:
			taken += more
			err = review.unfold()
		}
	}
	if err == nil {
		return release, true
	}
	release()
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		http.Error(w, fmt.Sprintf("the review is larger than %d bytes", limit), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errHeavy):
		http.Error(w, fmt.Sprintf("the decoded review is larger than %d bytes: %v", decoded, err), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, fmt.Sprintf("not a review: %v", err), http.StatusBadRequest)
	}
	return nil, false
}

// isWanted reports whether a review has the wanted kind and a request. If it returns false, it has
// already written the response.
func isWanted(w http.ResponseWriter, is metav1.TypeMeta, hasRequest bool, wanted object.GVK) bool {
	if hasRequest && is.GroupVersionKind() == wanted {
		return true
	}
	http.Error(w, fmt.Sprintf("want %s with a request, got %s", quoted(wanted), quoted(is.GroupVersionKind())), http.StatusBadRequest)
	return false
}

// elements returns the number of elements in a JSON list.
func elements(list []byte) (n int64) {
	depth, quoted := 0, false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			depth++
		case c == ']', c == '}':
			depth--
		case c == ',' && depth == 1:
			n++
		}
	}
	return n + 1
}

// answer writes a review as the response.
func answer(w http.ResponseWriter, review any) {
	body, err := marshal(review)
	if err != nil {
		http.Error(w, fmt.Sprintf("the response cannot be encoded: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", wire.MediaJSON)
	// The API server may have disconnected.
	_, _ = w.Write(body)
}

// marshal is json.Marshal without HTML escaping, with which a client could turn one byte into six.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxUID limits the length of a review's UID in bytes, because the response repeats it.
const maxUID = 1 << 10

func checkUID(uid types.UID) error {
	if len(uid) > maxUID {
		return fmt.Errorf("its UID has %d bytes, want at most %d", len(uid), maxUID)
	}
	return nil
}

// decode decodes an object of the given kind from JSON, or returns the zero T if there is no JSON. The
// object is untrusted and may be a Secret, so it is decoded as carefully as a server's response to a
// client.
func decode[T object.Object](raw []byte, kind object.GVK) (obj T, err error) {
	if len(raw) > 0 && string(raw) != "null" {
		obj, err = wire.UnmarshalJSON[T](raw, kind)
	}
	return obj, undecoded(reflect.TypeFor[T](), err)
}

// undecoded returns the error for an object that could not be decoded into a Go type.
func undecoded(into reflect.Type, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrKind):
		return wrongKind{fmt.Errorf("not a %v: %w, as stated in the review: an API server sends objects of the kind it states, so check who else can reach the webhook", into, err)}
	}
	return fmt.Errorf("not a %v: %w", into, err)
}

func empty[T object.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// mustBePointer panics if T cannot be instantiated, for example because it is object.Object itself.
func mustBePointer[T object.Object]() {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("webhook: %v is not a pointer to an API type: use one, or *unstructured.Unstructured", t))
	}
}

// mustHave panics if an argument is missing. The message includes the line that called the exported
// function.
func mustHave(here bool, what string) {
	if here {
		return
	}
	panic(fmt.Sprintf("webhook: %s: %s is nil", failure.Place(2), what))
}

// statusOf returns the status that the API server will pass on to its client.
func statusOf(err error, code int32, reason metav1.StatusReason) *metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return &s
	}
	if _, ok := errors.AsType[wrongKind](err); ok {
		code, reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
	}
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: err.Error()}
}
