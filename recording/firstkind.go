package recording

import (
	"bytes"
	"encoding/binary"
	"regexp"
)

var (
	kindInJSON = regexp.MustCompile(`"kind"\s*:\s*"([^"]+)"`)

	// kindInCBOR is the encoded key "kind".
	kindInCBOR = []byte("\x64kind")

	// protobufMark is the prefix of a protobuf-encoded object, including those in watch frames.
	protobufMark = []byte("k8s\x00")

	// cborMark is the prefix of a CBOR-encoded body.
	cborMark = []byte{0xd9, 0xd9, 0xf7}
)

// namesKind reports whether a body with this prefix may be an API response whose kind appears later, perhaps
// not until after the first object.
func namesKind(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	begins := func(mark []byte) bool { return bytes.HasPrefix(mark, text[:min(len(text), len(mark))]) }
	// A protobuf watch starts with a length of four bytes. No text starts with the first of them.
	return len(text) == 0 || text[0] == '{' || begins(cborMark) || begins(protobufMark) || text[0] < '\t'
}

// mayHideKind reports whether a body that ended before its first kind may contain objects. In protobuf, the kind
// comes first, so nothing of an object has been received.
func mayHideKind(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	return len(text) == 0 || text[0] == '{' || bytes.HasPrefix(text, cborMark)
}

// firstKind returns the first kind in a body, in any API encoding.
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

// textInCBOR decodes a text string of less than 256 bytes (RFC 8949, section 3).
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

// kindInProtobuf decodes the kind of a runtime.Unknown. Its field 1 is a TypeMeta, whose fields 1 and 2
// are the version and the kind.
func kindInProtobuf(text []byte) (kind string, found bool) {
	_, text = field(text, 1, false)
	_, text = field(text, 1, true)
	name, _ := field(text, 2, true)
	return string(name), name != nil
}

// field decodes a length-delimited field whose number is below 16. It returns the value, if complete,
// and the remaining bytes: those after the value or, if past is false, those after the length.
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
