// Package fault holds the reasons for which a body is refused, and makes errors that
// quote nothing of an object. Package wire exports the reasons.
//
// ErrUnusual alone is no reason: it sends an object to the reference.
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

// Reasons to refuse a body. Package wire explains and exports them.
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

// ErrFields means that a path names a field that the objects do not have.
var ErrFields = errors.New("no such field")

// ErrUnusual means that bytes are not as API servers write them: invalid, or valid
// in a form that they never use. The reference then has the last word.
var ErrUnusual = errors.New("not in canonical form")

// Unusual returns ErrUnusual in place of any error.
func Unusual(err error) error {
	if err != nil {
		return ErrUnusual
	}
	return nil
}

// Truncated is the error for a body that ends inside a value.
func Truncated(err error) error {
	if err == io.EOF {
		return fmt.Errorf("the body ends early: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// WithoutContent replaces an error of the reference by one that does not quote the
// object. Such an error may hold any value (time.Parse quotes its input), so only
// what is known to be harmless is kept.
func WithoutContent(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: a field runs past the end of its message", ErrSyntax)
	}
	if ok, offset := kjson.SyntaxErrorOffset(err); ok {
		return fmt.Errorf("%w: invalid JSON at byte %d of the object", ErrSyntax, offset)
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		// Value is "number 123" for a number: the word alone will do.
		value, _, _ := strings.Cut(te.Value, " ")
		err := fmt.Errorf("%w: field %q of type %v cannot hold a JSON %s", ErrSyntax, te.Field, te.Type, value)
		if te.Field != "" {
			err = fmt.Errorf("%w; Keep wire.Without(%q) does without the field", err, te.Field)
		}
		return err
	}
	return fmt.Errorf("%w: a field was refused by its type (%T)", ErrSyntax, err)
}

// Excerpt makes foreign text safe for a message: at most 64 printable runes.
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
