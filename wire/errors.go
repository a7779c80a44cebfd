package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// Reasons to reject a body. An [*Error] wraps one of them, or io.ErrUnexpectedEOF if the body ended
// too early.
var (
	ErrMedia     = fault.ErrMedia     // media type not supported
	ErrSyntax    = fault.ErrSyntax    // malformed body
	ErrTooLarge  = fault.ErrTooLarge  // larger than allowed
	ErrTooDeep   = fault.ErrTooDeep   // nested deeper than allowed
	ErrKind      = fault.ErrKind      // wrong kind
	ErrNoName    = fault.ErrNoName    // object without a name
	ErrEventType = fault.ErrEventType // unknown event type
	ErrQuantity  = fault.ErrQuantity  // quantity with too many digits or too large an exponent
	ErrTooDense  = fault.ErrTooDense  // would use more memory than MaxMemoryPerByte allows
)

// ErrFields means that Options.Keep contains a path to a field that the objects do not have.
var ErrFields = fault.ErrFields

// An Error reports which part of a body could not be decoded, and why. Because an object may be a
// Secret, neither the text nor the wrapped errors include its content. They include only field and type
// names, offsets, sizes, and the object's key.
type Error struct {
	Media string     // media type of the body
	Where string     // "object", "list", "item 17" or "frame 3", counted from 0
	Key   object.Key // the object's key; its Name is empty if it could not be read
	Bytes int        // size of the object or frame, 0 if unknown
	Err   error
}

// Error returns the position, key, size and reason on one line.
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

// keyOf returns the key for an Error. It copies the strings, since they may point into a buffer, and makes
// them safe to print.
func keyOf(namespace, name string) object.Key {
	return object.Key{Namespace: strings.Clone(fault.Excerpt(namespace)), Name: strings.Clone(fault.Excerpt(name))}
}

// listError adds the position in the list to err unless err already includes one. Transport errors say
// nothing about the bytes and are returned unchanged.
func listError(fail func(where string, raw []byte, err error) *Error, items int, err error) error {
	if frame.IsTransport(err) {
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

func whereFrame(number int) string { return "frame " + strconv.Itoa(number) }
