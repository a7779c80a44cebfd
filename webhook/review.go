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

// folded is a review whose lists and maps have not been decoded yet: few bytes may become
// many there.
type folded interface {
	// weight is about how many bytes they become.
	weight() int64

	// unfold decodes them.
	unfold() error
}

// errHeavy: a review has too much in its lists and maps.
var errHeavy = errors.New("it has too many objects, or too much in one of them, or its user has too many groups or too much extra")

// read decodes the body of a review of at most limit bytes, which may become decoded bytes.
// Where it fails it has answered. The caller calls release when it is done with the review.
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
		http.Error(w, fmt.Sprintf("the review is larger than %d bytes when it is decoded: %v", decoded, err), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errFull):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, fmt.Sprintf("not a review: %v", err), http.StatusBadRequest)
	}
	return nil, false
}

// isWanted reports whether a review is of the wanted kind and has a request. If not, it has answered.
func isWanted(w http.ResponseWriter, is metav1.TypeMeta, hasRequest bool, wanted object.GVK) bool {
	if hasRequest && is.GroupVersionKind() == wanted {
		return true
	}
	http.Error(w, fmt.Sprintf("want %s with a request, got %s", quoted(wanted), quoted(is.GroupVersionKind())), http.StatusBadRequest)
	return false
}

// elements is how many elements a list of JSON has.
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

// answer writes a review.
func answer(w http.ResponseWriter, review any) {
	body, err := marshal(review)
	if err != nil {
		http.Error(w, fmt.Sprintf("the answer cannot be written: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", wire.MediaJSON)
	// The API server may have given up.
	_, _ = w.Write(body)
}

// marshal is json.Marshal without escapes for HTML, which take six bytes for one that anybody may send.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxUID bounds the UID of a review, in bytes. The answer repeats it.
const maxUID = 1 << 10

func checkUID(uid types.UID) error {
	if len(uid) > maxUID {
		return fmt.Errorf("its UID has %d bytes, want %d at most", len(uid), maxUID)
	}
	return nil
}

// decode makes an object of a kind from JSON; of nothing, the zero T. Anybody may send it, and
// it may be a Secret: it is read as a client reads what a server sends.
func decode[T object.Object](raw []byte, kind object.GVK) (obj T, err error) {
	if len(raw) > 0 && string(raw) != "null" {
		obj, err = wire.UnmarshalJSON[T](raw, kind)
	}
	return obj, undecoded(reflect.TypeFor[T](), err)
}

// undecoded says into what Go type an object could not be decoded.
func undecoded(into reflect.Type, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrKind):
		return wrongKind{fmt.Errorf("not a %v: %w, as the review says: an API server sends objects of the kind that it says, so see who else reaches the webhook", into, err)}
	}
	return fmt.Errorf("not a %v: %w", into, err)
}

func empty[T object.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// mustBePointer catches a T that cannot be instantiated, such as
// object.Object, when the handler is made.
func mustBePointer[T object.Object]() {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("webhook: %v is not a pointer to an API type: use one, or *unstructured.Unstructured", t))
	}
}

// mustHave panics where a function is missing, and names the line that called the
// exported function which needs it.
func mustHave(here bool, what string) {
	if here {
		return
	}
	panic(fmt.Sprintf("webhook: %s: %s is nil", failure.Place(2), what))
}

// statusOf is what the API server passes on to its client.
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
