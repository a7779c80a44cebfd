package wire

import (
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// splitWatchEvent takes a metav1.WatchEvent apart: 1 type, 2 RawExtension{1 raw}.
func splitWatchEvent(msg []byte) (typ string, obj []byte, err error) {
	for len(msg) > 0 {
		var f field
		if f, msg, err = nextField(msg); err != nil {
			return "", nil, err
		}
		switch {
		case f.wire != frame.WireBytes:
		case f.number == 1:
			typ = string(f.bytes)
		case f.number == 2:
			for ext := f.bytes; len(ext) > 0; {
				var inner field
				if inner, ext, err = nextField(ext); err != nil {
					return "", nil, err
				}
				if inner.number == 1 && inner.wire == frame.WireBytes {
					obj = inner.bytes
				}
			}
		}
	}
	if obj == nil {
		return "", nil, fmt.Errorf("%w: the frame holds no object", fault.ErrSyntax)
	}
	return typ, obj, nil
}
