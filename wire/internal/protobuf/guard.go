package protobuf

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// Guard says which fields of a message lead to what generated code reads
// without a limit: quantities, and entries of maps.
type Guard struct {
	quantity bool     // the message is a quantity
	entry    bool     // the message is an entry of a map
	fields   []*Guard // by number; nil for those that lead nowhere
}

var errEntry = fmt.Errorf("%w: a map's key or value runs past the end of its entry", fault.ErrSyntax)

// GuardOf returns the guard of a type that does not contain itself, or nil
// where there is nothing to guard. known are the types that were met before.
func GuardOf(t reflect.Type, known map[reflect.Type]*Guard) *Guard {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	g, ok := known[t]
	switch {
	case ok:
		return g
	case t == reflect.TypeFor[resource.Quantity]():
		g = &Guard{quantity: true}
	case t.Kind() == reflect.Map:
		g = &Guard{entry: true, fields: []*Guard{2: GuardOf(t.Elem(), known)}}
	case t.Kind() == reflect.Struct:
		g = guardOfFields(t, known)
	}
	known[t] = g
	return g
}

func guardOfFields(t reflect.Type, known map[reflect.Type]*Guard) *Guard {
	var g Guard
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		number, err := strconv.Atoi(tag[1])
		field := GuardOf(f.Type, known)
		if err != nil || number < 1 || number > maxFieldNumber || field == nil {
			continue
		}
		for len(g.fields) <= number {
			g.fields = append(g.fields, nil)
		}
		g.fields[number] = field
	}
	if g.fields == nil {
		return nil
	}
	return &g
}

// Check fails if generated code must not read the message msg. It reads the bytes
// as that code does: numbers wrap around, and unknown groups are skipped. It stops
// where that code would fail.
func (g *Guard) Check(msg []byte) error {
	if g == nil {
		return nil
	}
	if g.entry {
		return g.checkEntry(msg)
	}
	for at := 0; at < len(msg); {
		tag, after := looseVarint(msg, at)
		number := int32(tag >> 3)
		if after < 0 || tag&7 == frame.WireEndGroup || number <= 0 {
			return nil
		}
		field := g.field(number)
		if field == nil && !(g.quantity && number == 1) {
			if at = looseSkip(msg, at); at < 0 {
				return nil
			}
			continue
		}
		start, end := looseBytes(msg, after)
		if tag&7 != frame.WireBytes || end < 0 {
			return nil
		}
		if g.quantity && guard.Absurd(msg[start:end]) {
			return fault.ErrQuantity
		}
		if err := field.Check(msg[start:end]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// checkEntry is check for an entry of a map. Generated code ignores the wire
// types in it, and lets a key or a value reach beyond the entry into all that
// follows: each of a million entries could copy what comes after it.
func (g *Guard) checkEntry(entry []byte) error {
	for at := 0; at < len(entry); {
		tag, after := looseVarint(entry, at)
		if after < 0 {
			return errEntry
		}
		number := int32(tag >> 3)
		if number != 1 && number != 2 {
			if at = looseSkip(entry, at); at < 0 {
				return errEntry
			}
			continue
		}
		start, end := looseBytes(entry, after)
		if end < 0 {
			return errEntry
		}
		if err := g.field(number).Check(entry[start:end]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func (g *Guard) field(number int32) *Guard {
	if int(number) < len(g.fields) {
		return g.fields[number]
	}
	return nil
}

// looseVarint reads a number as generated code does: what is beyond 64 bits is
// lost. after is where it ends, or -1 where it does not.
func looseVarint(msg []byte, at int) (v uint64, after int) {
	for shift := 0; shift < 64 && at < len(msg); shift += 7 {
		c := msg[at]
		at++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, at
		}
	}
	return 0, -1
}

// looseBytes reads a length and returns where the bytes begin and end that
// follow. end is -1 where they are not all there.
func looseBytes(msg []byte, at int) (start, end int) {
	size, start := looseVarint(msg, at)
	if start < 0 || size > uint64(len(msg)-start) {
		return 0, -1
	}
	return start, start + int(size)
}

// looseSkip returns where the field at at ends, or -1. Any end of a group ends it,
// as in generated code.
func looseSkip(msg []byte, at int) int {
	for depth := 0; at < len(msg); {
		tag, after := looseVarint(msg, at)
		if after < 0 {
			return -1
		}
		switch at = after; tag & 7 {
		case frame.WireVarint:
			_, at = looseVarint(msg, at)
		case frame.WireFixed64:
			at += 8
		case frame.WireBytes:
			_, at = looseBytes(msg, at)
		case frame.WireStartGroup:
			depth++
		case frame.WireEndGroup:
			depth--
		case frame.WireFixed32:
			at += 4
		default:
			return -1
		}
		if at < 0 || at > len(msg) || depth < 0 {
			return -1
		}
		if depth == 0 {
			return at
		}
	}
	return -1
}
