package recording

import (
	"encoding/binary"
	"errors"
	"time"
)

// kind says what a record is about.
type kind byte

const (
	kindHeader   kind = 'H' // JSON of header; the first record of a file
	kindRequest  kind = 'Q' // JSON of Request: it is being sent
	kindAnswer   kind = 'R' // JSON of Answer: its head has come
	kindChunk    kind = 'C' // bytes of a body, as one read returned them
	kindWithheld kind = 'Z' // the number of such bytes, which are not told
	kindEnd      kind = 'E' // JSON of ending: nothing more comes
	kindStop     kind = 'S' // JSON of stop: the recording was closed
)

// record is one thing that happened to one request.
type record struct {
	kind    kind
	request uint64        // which request, counted from 1; 0 for those about the file
	at      time.Duration // since the recording began
	payload []byte
}

const (
	// maxPayload is the longest payload. A record fits into a block.
	maxPayload = 32 << 10

	// maxHead is what the parts of a record before its payload take at most.
	maxHead = 1 + 3*binary.MaxVarintLen64
)

// append writes the record after what is in b.
func (r *record) append(b []byte) []byte {
	b = append(b, byte(r.kind))
	b = binary.AppendUvarint(b, r.request)
	b = binary.AppendUvarint(b, uint64(r.at))
	b = binary.AppendUvarint(b, uint64(len(r.payload)))
	return append(b, r.payload...)
}

var errRecord = errors.New("a record runs over the end of its block")

// next takes the first record off b. Its payload is a part of b.
func next(b []byte) (r record, rest []byte, err error) {
	if len(b) == 0 {
		return r, nil, errRecord
	}
	r.kind, rest = kind(b[0]), b[1:]
	var numbers [3]uint64
	for i := range numbers {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			return r, nil, errRecord
		}
		numbers[i], rest = n, rest[size:]
	}
	if numbers[2] > uint64(len(rest)) {
		return r, nil, errRecord
	}
	r.request, r.at = numbers[0], time.Duration(numbers[1])
	if r.at < 0 {
		return r, nil, errors.New("a record is of a time that is none")
	}
	r.payload, rest = rest[:numbers[2]:numbers[2]], rest[numbers[2]:]
	return r, rest, nil
}
