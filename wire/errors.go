package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
)

// Reasons to refuse a body. An *Error wraps one of them, or io.ErrUnexpectedEOF if
// the body ended too early.
var (
	ErrMedia     = errors.New("media type not supported")
	ErrSyntax    = errors.New("malformed body")
	ErrTooLarge  = errors.New("larger than allowed")
	ErrTooDeep   = errors.New("nested deeper than allowed")
	ErrKind      = errors.New("wrong kind")
	ErrNoName    = errors.New("object without a name")
	ErrEventType = errors.New("unknown event type")
	ErrQuantity  = errors.New("quantity with too many digits or too large an exponent")
)

// ErrFields means that Options.Keep names a field that the objects do not have.
var ErrFields = errors.New("no such field")

// An Error says which part of a body could not be decoded, and why. Neither its
// text nor what it wraps holds any of the object's content, which may be a secret.
// It has only the names of fields and types, offsets, sizes, and the object's key.
type Error struct {
	Media string     // media type of the body
	Where string     // "object", "list", "item 17" or "frame 3", counted from 0
	Key   object.Key // of the object; its Name is empty if it could not be read
	Bytes int        // size of the object or frame, 0 if unknown
	Err   error
}

// Error returns the place, the key, the size and the reason on one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "decode %s: %s", e.Media, e.Where)
	if e.Key.Name != "" {
		fmt.Fprintf(&b, " (%s)", object.FormatKey(e.Key))
	}
	if e.Bytes > 0 {
		fmt.Fprintf(&b, ", %d bytes", e.Bytes)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// errStopped ends the reading when the consumer has stopped. Callers never see it.
var errStopped = errors.New("stopped by the consumer")

// truncated is the error for a body that ends inside a value.
func truncated(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the body ends early: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// listFailed says where in a list it went wrong, unless err already does. Errors
// of the transport say nothing about the bytes and stay as they are.
func listFailed(fail func(where string, raw []byte, err error) *Error, items int, err error) error {
	if isTransport(err) {
		return fmt.Errorf("read list after %d items: %w", items, err)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return s
	}
	return fail("list after "+strconv.Itoa(items)+" items", nil, err)
}

func whereItem(number int) string { return "item " + strconv.Itoa(number) }

// withoutContent replaces an error of the reference by one that does not quote the
// object. Such an error may hold any value (time.Parse quotes its input), so only
// what is known to be harmless is kept.
func withoutContent(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: a field runs past the end of its message", ErrSyntax)
	}
	if ok, offset := kjson.SyntaxErrorOffset(err); ok {
		return fmt.Errorf("%w: invalid JSON at byte %d of the object", ErrSyntax, offset)
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		// Value is "number 123" for a number: the word alone will do.
		value, _, _ := strings.Cut(te.Value, " ")
		return fmt.Errorf("%w: field %q of type %v cannot hold a JSON %s", ErrSyntax, te.Field, te.Type, value)
	}
	return fmt.Errorf("%w: a field was refused by its type (%T)", ErrSyntax, err)
}

// excerpt makes foreign text safe for a message: at most 64 printable runes.
func excerpt(s string) string {
	n := 0
	for i, r := range s {
		if !unicode.IsPrint(r) {
			return s[:i] + "..."
		}
		if n++; n > 64 {
			return s[:i] + "..."
		}
	}
	return s
}
