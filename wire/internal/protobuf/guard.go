package protobuf

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// Guard describes how generated code decodes a message and what must be checked beforehand:
// quantities and map entries, which that code reads without limit, and fields that use memory.
type Guard struct {
	quantity bool      // the message is a quantity
	entry    bool      // the message is a map entry
	fields   []guarded // by number
}

// guarded is a field of a message. The zero guarded does not need checking.
type guarded struct {
	memory   int64          // bytes of memory for each occurrence of the field
	numbers  bool           // the field is a list of numbers, which may be packed
	mapBytes guard.MapBytes // of a map
	below    *Guard         // guard of the messages in the field; may be nil
}

var errEntry = fmt.Errorf("%w: a map's key or value runs past the end of its entry", fault.ErrSyntax)

// GuardOf returns the guard for a type, which must not be recursive, or nil if there is nothing to check.
// known contains the types seen so far.
func GuardOf(t reflect.Type, known map[reflect.Type]*Guard) *Guard {
	g, ok := known[t]
	switch {
	case ok:
		return g
	case t == reflect.TypeFor[resource.Quantity]():
		g = &Guard{quantity: true}
	case t.Kind() == reflect.Map:
		value := guardedOf(t.Elem(), known)
		value.memory = int64(t.Elem().Size())
		g = &Guard{entry: true, fields: []guarded{2: value}}
	case t.Kind() == reflect.Slice: // a list type with its own message
		g = &Guard{fields: []guarded{1: guardedElement(t.Elem(), known)}}
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
		field := guardedOf(f.Type, known)
		if err != nil || number < 1 || number > maxFieldNumber || field == (guarded{}) {
			continue
		}
		for len(g.fields) <= number {
			g.fields = append(g.fields, guarded{})
		}
		g.fields[number] = field
	}
	if g.fields == nil {
		return nil
	}
	return &g
}

// guardedOf returns the check for a field of type t.
func guardedOf(t reflect.Type, known map[reflect.Type]*Guard) guarded {
	readsItself := reflect.PointerTo(t).Implements(reflect.TypeFor[Unmarshaler]())
	switch kind := t.Kind(); {
	case kind == reflect.Pointer:
		return guardedElement(t.Elem(), known)
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return guarded{}
	case kind == reflect.Slice && !readsItself:
		f := guardedElement(t.Elem(), known)
		switch t.Elem().Kind() {
		case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
			f.numbers = true
		}
		return f
	case kind == reflect.Map && !readsItself:
		return guarded{mapBytes: guard.MapBytesOf(t.Key(), t.Elem()), below: GuardOf(t, known)}
	}
	return guarded{below: GuardOf(t, known)}
}

// guardedElement returns the check for a field if each occurrence of it creates a value of type t.
func guardedElement(t reflect.Type, known map[reflect.Type]*Guard) guarded {
	f := guardedOf(t, known)
	return guarded{memory: f.memory + int64(t.Size()), below: f.below}
}

// Check returns an error if generated code must not read the message msg: ErrTooDense if it would use too
// much memory. Check reads the bytes the way generated code does: numbers wrap around, and unknown groups are
// skipped. It stops at the point where that code would fail.
func (g *Guard) Check(msg []byte) error {
	budget := guard.BudgetOf(len(msg))
	err := g.check(msg, &budget)
	if err == fault.ErrTooDense {
		return guard.TooDense(len(msg))
	}
	return err
}

// check is like Check, with the remaining budget.
func (g *Guard) check(msg []byte, budget *guard.Budget) error {
	if g == nil {
		return nil
	}
	if g.entry {
		return g.checkEntry(msg, budget)
	}
	before := int32(0)
	for at := 0; at < len(msg); {
		tag, after := looseVarint(msg, at)
		number := int32(tag >> 3)
		if after < 0 || tag&7 == frame.WireEndGroup || number <= 0 {
			return nil
		}
		f := g.field(number)
		if !f.take(budget, number == before) {
			return fault.ErrTooDense
		}
		before = number
		if tag&7 != frame.WireBytes || f == (guarded{}) && !(g.quantity && number == 1) {
			if at = looseSkip(msg, at); at < 0 {
				return nil
			}
			continue
		}
		start, end := looseBytes(msg, after)
		if end < 0 {
			return nil
		}
		if g.quantity && guard.AbsurdQuantity(msg[start:end]) {
			return fault.ErrQuantity
		}
		if f.numbers && !budget.Take(end-start, f.memory) {
			return fault.ErrTooDense
		}
		if err := f.below.check(msg[start:end], budget); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// take deducts the field's memory from the budget. again indicates that the previous field had the
// same number.
func (f *guarded) take(budget *guard.Budget, again bool) bool {
	switch {
	case f.mapBytes == (guard.MapBytes{}):
		return budget.Take(1, f.memory)
	case again:
		return budget.Take(1, f.mapBytes.Each)
	}
	return budget.Take(1, f.mapBytes.First)
}

// checkEntry is like check, but for a map entry. Generated code ignores the wire types in an entry, and
// allows a key or value to extend past the entry's end: with a million entries, each could copy all of the
// bytes after it.
func (g *Guard) checkEntry(entry []byte, budget *guard.Budget) error {
	values := 0
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
		if number == 2 {
			value := g.field(2)
			if values++; values > 1 && !budget.Take(1, value.memory) {
				return fault.ErrTooDense // each one is allocated, and the last one kept
			}
			if err := value.below.check(entry[start:end], budget); err != nil {
				return err
			}
		}
		at = end
	}
	return nil
}

func (g *Guard) field(number int32) guarded {
	if int(number) < len(g.fields) {
		return g.fields[number]
	}
	return guarded{}
}

// looseVarint reads a number the way generated code does, ignoring bits beyond the 64th. after is the index
// after it, or -1 if it is incomplete.
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

// looseBytes reads a length and returns the start and end of the bytes that follow. end is -1 if any are
// missing.
func looseBytes(msg []byte, at int) (start, end int) {
	size, start := looseVarint(msg, at)
	if start < 0 || size > uint64(len(msg)-start) {
		return 0, -1
	}
	return start, start + int(size)
}

// looseSkip returns the end of the field at at, or -1. As in generated code, any end-group tag ends
// a group.
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

// Unmarshaler is a type with a generated Unmarshal method.
type Unmarshaler interface{ Unmarshal(data []byte) error }

// UnsupportedReason explains why a type cannot be decoded from protobuf, or returns "" if it can.
func UnsupportedReason(t reflect.Type) string {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[Unmarshaler]()) {
		return "it has no Unmarshal method"
	}
	if ContainsItself(t) {
		return "it contains itself"
	}
	return ""
}

// ContainsItself reports whether values of type t can nest without limit.
func ContainsItself(t reflect.Type) bool {
	if known, ok := recursiveTypes.Load(t); ok {
		return known.(bool)
	}
	is := isWithin(t, nil)
	recursiveTypes.Store(t, is)
	return is
}

// recursiveTypes caches the results of ContainsItself, a bool for each reflect.Type.
var recursiveTypes sync.Map

// isWithin implements ContainsItself. path contains the struct types on the path to t.
func isWithin(t reflect.Type, path []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return isWithin(t.Elem(), path)
	case reflect.Struct:
		for _, p := range path {
			if p == t {
				return true
			}
		}
		path = append(path, t)
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && isWithin(f.Type, path) {
				return true
			}
		}
	}
	return false
}
