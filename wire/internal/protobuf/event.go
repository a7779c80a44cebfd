package protobuf

import (
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// SplitEvent takes a metav1.WatchEvent apart: 1 type, 2 RawExtension{1 raw}.
func SplitEvent(msg []byte) (typ string, obj []byte, err error) {
	for len(msg) > 0 {
		var f field
		if f, msg, err = NextField(msg); err != nil {
			return "", nil, err
		}
		switch {
		case f.Wire != frame.WireBytes:
		case f.Number == 1:
			typ = string(f.Bytes)
		case f.Number == 2:
			for ext := f.Bytes; len(ext) > 0; {
				var inner field
				if inner, ext, err = NextField(ext); err != nil {
					return "", nil, err
				}
				if inner.Number == 1 && inner.Wire == frame.WireBytes {
					obj = inner.Bytes
				}
			}
		}
	}
	if obj == nil {
		return "", nil, fmt.Errorf("%w: the frame holds no object", fault.ErrSyntax)
	}
	return typ, obj, nil
}
