// Package fault defines the errors for rejected bodies, and creates errors that do not quote
// objects. Package wire exports the errors, except ErrUnusual, which makes the caller fall
// back to the reference.
package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// Reasons to reject a body. Package wire documents and exports them.
var (
	ErrMedia     = errors.New("media type not supported")
	ErrSyntax    = errors.New("malformed body")
	ErrTooLarge  = errors.New("larger than allowed")
	ErrTooDeep   = errors.New("nested deeper than allowed")
	ErrKind      = errors.New("wrong kind")
	ErrNoName    = errors.New("object without a name")
	ErrEventType = errors.New("unknown event type")
	ErrQuantity  = errors.New("quantity with too many digits or too large an exponent")
	ErrTooDense  = errors.New("too much memory for its size")
)

// ErrFields means that a path refers to a field that the objects do not have.
var ErrFields = errors.New("no such field")

// ErrUnusual means that the input is not in the form that API servers write: it is invalid, or
// valid but in a form that servers never use. The reference then decides which.
var ErrUnusual = errors.New("not in canonical form")

// Unusual returns ErrUnusual if err is not nil, and nil otherwise.
func Unusual(err error) error {
	if err != nil {
		return ErrUnusual
	}
	return nil
}

// Truncated returns the error for a body that ends inside a value.
func Truncated(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the body ends early: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// WithoutContent replaces an error from the reference with one that does not quote the object.
// Such an error may contain any value (time.Parse quotes its input), so WithoutContent keeps only the parts
// that are known to be harmless.
func WithoutContent(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: a field runs past the end of its message", ErrSyntax)
	}
	if ok, offset := kjson.SyntaxErrorOffset(err); ok {
		return fmt.Errorf("%w: invalid JSON at byte %d of the object", ErrSyntax, offset)
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		// For a number, Value is "number 123": keep only the word.
		value, _, _ := strings.Cut(te.Value, " ")
		err := fmt.Errorf("%w: field %q of type %v cannot hold a JSON %s", ErrSyntax, te.Field, te.Type, value)
		if te.Field != "" {
			err = fmt.Errorf("%w; to skip the field, use Keep: wire.Without(%q)", err, te.Field)
		}
		return err
	}
	return fmt.Errorf("%w: a field was rejected by its type (%T)", ErrSyntax, err)
}

// Excerpt makes untrusted text safe for a message: at most 64 printable runes.
func Excerpt(s string) string {
	n := 0
	for i, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)) {
			return s[:i] + "..."
		}
		if n++; n > 64 {
			return s[:i] + "..."
		}
	}
	return s
}
