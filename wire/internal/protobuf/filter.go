package protobuf

import (
	"encoding/binary"
	"reflect"
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// filter is the state of filtering one object.
type filter struct {
	budget   guard.Budget // of the object
	edits    []edit
	time     metav1.Time
	quantity resource.Quantity
}

// edit is a change to an object's bytes: it removes a field, or replaces the length of a message
// that has become shorter.
type edit struct {
	start, end int
	length     int // the message's new length; removed if the field is dropped
}

// removed is the length of a dropped field.
const removed = -1

// maxReusedEdits is the maximum number of edits for which memory is kept between objects.
const maxReusedEdits = 1 << 8

// Filter checks an object without decoding it. It returns true if Decode would succeed. In that case kept
// contains the bytes that Decode would read, either raw itself or a copy in room, and h contains the head.
// Filter also gives up in some cases that Decode supports, such as fields in an unusual order.
func (d *Decoder) Filter(table *Table, h *head.Head, raw []byte, room *[]byte) (kept []byte, ok bool) {
	s := &d.filter
	defer func() {
		if cap(s.edits) > maxReusedEdits {
			s.edits = nil
		}
	}()
	s.edits = s.edits[:0]
	s.budget = guard.BudgetOf(len(raw))
	cut, ok := s.fields(table, raw, 0)
	if !ok || !s.budget.Take(cut, guard.MemoryPerByte) { // account for the kept bytes as if nothing had been dropped
		return nil, false
	}
	if len(s.edits) > 0 {
		*room = s.apply(raw, (*room)[:0])
		raw = *room
	}
	return raw, ReadHead(h, raw)
}

// fields checks the fields of a message that starts at byte at. cut is the number of bytes removed from it.
func (s *filter) fields(table *Table, msg []byte, at int) (cut int, ok bool) {
	before := uint64(0)
	for pos := 0; pos < len(msg); {
		tag, n := uint64(msg[pos]), 1
		if tag >= 0x80 {
			if tag, n = varint(msg[pos:]); n == 0 {
				return 0, false
			}
		}
		number := tag >> 3
		var f *tableField
		if number < uint64(len(table.fields)) {
			f = table.fields[number]
		}
		if number < before || number == before && f != nil && f.op < opBools {
			return 0, false // it may appear twice
		}
		again := number == before
		before = number
		start := pos
		if f == nil {
			_, rest, err := NextField(msg[pos:])
			if err != nil {
				return 0, false
			}
			pos = len(msg) - len(rest)
			s.edits = append(s.edits, edit{at + start, at + pos, removed})
			cut += pos - start
			continue
		}
		pos += n
		if pos == len(msg) || tag != f.tag || !s.take(f, again) {
			return 0, false
		}
		value, n := uint64(msg[pos]), 1
		if value >= 0x80 {
			if value, n = varint(msg[pos:]); n == 0 {
				return 0, false
			}
		}
		length := pos
		pos += n
		if f.wire != frame.WireBytes {
			continue
		}
		if value > uint64(len(msg)-pos) {
			return 0, false
		}
		end := pos + int(value)
		if f.op == opString || f.op == opStrings {
			pos = end
			continue
		}
		less, ok := s.value(f, msg[pos:end:end], at+pos)
		if !ok {
			return 0, false
		}
		if less > 0 {
			left := int(value) - less
			s.edits = append(s.edits, edit{at + length, at + pos, left})
			cut += less + n - uvarintSize(left)
		}
		pos = end
	}
	return cut, true
}

// take deducts a field's memory from the budget. again indicates that the previous field had the
// same number.
func (s *filter) take(f *tableField, again bool) bool {
	switch {
	case f.op != opMap:
		return s.budget.Take(1, f.memory)
	case again:
		return s.budget.Take(1, f.pairs.mapBytes.Each)
	}
	return s.budget.Take(1, f.pairs.mapBytes.First)
}

// value checks a length-delimited value.
func (s *filter) value(f *tableField, raw []byte, at int) (cut int, ok bool) {
	switch f.op {
	case opStruct, opStructPtr, opStructs:
		return s.fields(f.table, raw, at)
	case opUnmarshaler, opUnmarshalerPtr, opUnmarshalers:
		return 0, s.checkUnmarshaler(f, raw)
	case opMap:
		value, ok := entryValue(raw)
		if !ok {
			return 0, false
		}
		// Don't cut anything within an entry; that is rarely needed.
		cut, ok = s.value(f.pairs.value, value, at+len(raw)-len(value))
		return 0, ok && cut == 0
	}
	return 0, true
}

// entryValue returns the value in a map entry. It returns false if the entry does not have the form
// that pair supports.
func entryValue(entry []byte) (value []byte, ok bool) {
	_, rest, ok := lengthField(entry, 1)
	if !ok {
		return nil, false
	}
	value, rest, ok = lengthField(rest, 2)
	return value, ok && len(rest) == 0
}

// checkUnmarshaler checks a value of a type with an Unmarshal method.
func (s *filter) checkUnmarshaler(f *tableField, raw []byte) bool {
	switch f.typ {
	case reflect.TypeFor[metav1.Time]():
		return f.unmarshal(unsafe.Pointer(&s.time), raw) == nil
	case reflect.TypeFor[resource.Quantity]():
		text, rest, ok := lengthField(raw, 1)
		return ok && len(rest) == 0 && guard.PlainQuantity(text) || f.unmarshal(unsafe.Pointer(&s.quantity), raw) == nil
	}
	return f.guard.check(raw, &s.budget) == nil && f.unmarshal(reflect.New(f.typ).UnsafePointer(), raw) == nil
}

// apply appends raw to dst with the edits applied.
func (s *filter) apply(raw, dst []byte) []byte {
	slices.SortFunc(s.edits, func(a, b edit) int { return a.start - b.start })
	done := 0
	for _, e := range s.edits {
		dst = append(dst, raw[done:e.start]...)
		if e.length != removed {
			dst = binary.AppendUvarint(dst, uint64(e.length))
		}
		done = e.end
	}
	return append(dst, raw[done:]...)
}

func uvarintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
