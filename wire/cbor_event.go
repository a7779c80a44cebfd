package wire

import (
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// splitCBOREvent takes a metav1.WatchEvent apart.
func splitCBOREvent(raw []byte) (typ string, obj []byte, err error) {
	w := cborWalk{raw: raw}
	sound := w.eachField(func(name []byte) bool {
		value, ok := w.skip()
		switch string(name) {
		case "type":
			text, isText := (&cborWalk{raw: value}).text()
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
