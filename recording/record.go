package recording

import (
	"encoding/binary"
	"errors"
	"time"
)

// kind is the type of a record.
type kind byte

const (
	kindHeader   kind = 'H' // JSON of header; always the first record
	kindRequest  kind = 'Q' // JSON of Request: the request was sent
	kindAnswer   kind = 'R' // JSON of Answer: the response header arrived
	kindChunk    kind = 'C' // body data, as returned by one read
	kindWithheld kind = 'Z' // size of withheld body data
	kindEnd      kind = 'E' // JSON of ending: the request finished
	kindStop     kind = 'S' // JSON of stop: the recording was closed
)

// record is one event of one request.
type record struct {
	kind    kind
	request uint64        // request number, from 1; 0 for records about the file
	at      time.Duration // since the recording began
	payload []byte
}

const (
	// maxPayload limits the size of a payload, so that a record always fits into a block.
	maxPayload = 32 << 10

	// maxHead is the maximum size of a record without its payload.
	maxHead = 1 + 3*binary.MaxVarintLen64
)

// append appends the encoded record to b.
func (r *record) append(b []byte) []byte {
	b = append(b, byte(r.kind))
	b = binary.AppendUvarint(b, r.request)
	b = binary.AppendUvarint(b, uint64(r.at))
	b = binary.AppendUvarint(b, uint64(len(r.payload)))
	return append(b, r.payload...)
}

var errRecord = errors.New("record extends past the end of its block")

// next decodes the first record of b. Its payload shares memory with b.
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
		return r, nil, errors.New("record with invalid time")
	}
	r.payload, rest = rest[:numbers[2]:numbers[2]], rest[numbers[2]:]
	return r, rest, nil
}
