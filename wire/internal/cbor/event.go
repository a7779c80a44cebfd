package cbor

import (
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// SplitEvent takes a metav1.WatchEvent apart.
func SplitEvent(raw []byte) (typ string, obj []byte, err error) {
	w := walk{raw: raw}
	sound := w.eachField(func(name []byte) bool {
		value, ok := w.skip()
		switch string(name) {
		case "type":
			text, isText := (&walk{raw: value}).text()
			ok = ok && isText && typ == ""
			typ = string(text)
		case "object":
			ok = ok && obj == nil
			obj = value
		}
		return ok
	})
	switch {
	case !sound:
		return "", nil, fmt.Errorf("%w: the frame is not a map with a type and an object", fault.ErrSyntax)
	case obj == nil:
		return "", nil, fmt.Errorf("%w: the frame holds no object", fault.ErrSyntax)
	}
	return typ, obj, nil
}
