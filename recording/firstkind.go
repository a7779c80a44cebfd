package recording

import (
	"bytes"
	"encoding/binary"
	"regexp"
)

var (
	kindInJSON = regexp.MustCompile(`"kind"\s*:\s*"([^"]+)"`)

	// kindInCBOR is the key, preceded by its length.
	kindInCBOR = []byte("\x64kind")

	// protobufMark starts an object in protobuf, also in the frames of a watch.
	protobufMark = []byte("k8s\x00")

	// cborMark starts a body in CBOR.
	cborMark = []byte{0xd9, 0xd9, 0xf7}
)

// namesKind reports whether a body that starts like this may come from the API and name
// a kind, perhaps only after the first object. In protobuf the kind comes first.
func namesKind(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	return len(text) == 0 || text[0] == '{' || bytes.HasPrefix(text, cborMark)
}

// firstKind returns the first kind in a body, in any encoding of the API.
func firstKind(body []byte) (kind string, found bool) {
	if at := bytes.Index(body, protobufMark); at >= 0 {
		return kindInProtobuf(body[at+len(protobufMark):])
	}
	if m := kindInJSON.FindSubmatch(body); m != nil {
		return string(m[1]), true
	}
	if at := bytes.Index(body, kindInCBOR); at >= 0 {
		return textInCBOR(body[at+len(kindInCBOR):])
	}
	return "", false
}

// textInCBOR reads a text of less than 256 bytes (RFC 8949, section 3).
func textInCBOR(text []byte) (string, bool) {
	const major, longer = 0x60, 24
	if len(text) < 2 {
		return "", false
	}
	length, text := int(text[0])-major, text[1:]
	if length == longer {
		length, text = int(text[0]), text[1:]
	} else if length > longer {
		return "", false
	}
	if length < 0 || length > len(text) {
		return "", false
	}
	return string(text[:length]), true
}

// kindInProtobuf reads the kind of a runtime.Unknown. Its field 1 is a TypeMeta, whose
// fields 1 and 2 are the version and the kind.
func kindInProtobuf(text []byte) (kind string, found bool) {
	_, text = field(text, 1, false)
	_, text = field(text, 1, true)
	name, _ := field(text, 2, true)
	return string(name), name != nil
}

// field reads a bytes field with a number below 16. It returns its value, if complete,
// and the rest after the value or, if past is false, after the length.
func field(text []byte, number byte, past bool) (value, rest []byte) {
	if len(text) == 0 || text[0] != number<<3|2 {
		return nil, nil
	}
	length, n := binary.Uvarint(text[1:])
	if n <= 0 {
		return nil, nil
	}
	if text = text[1+n:]; !past {
		return nil, text
	}
	if length > uint64(len(text)) {
		return nil, nil
	}
	return text[:length:length], text[length:]
}
