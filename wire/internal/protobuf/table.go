package protobuf

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/selection"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// Table describes how to decode the selected fields of a Go struct from protobuf. It is built once for each
// type and selection, from the struct's tags and layout, and is immutable afterwards.
type Table struct {
	typ             reflect.Type
	fields          []*tableField // by field number; nil for skipped fields
	reachesQuantity bool          // a field has reachesQuantity set
}

// Message returns the table for the messages in a field. It returns nil if the field contains no messages or
// they have no table. Map entries are messages, too.
func (t *Table) Message(number int) *Table {
	if t == nil || number >= len(t.fields) || t.fields[number] == nil {
		return nil
	}
	f := t.fields[number]
	if f.op == opMap {
		return &Table{typ: f.typ, fields: []*tableField{2: f.pairs.value}}
	}
	return f.table
}

// op determines how a field's value is decoded.
type op uint8

const (
	opBool op = iota
	opInt32
	opInt64
	opString
	opBytes
	opStruct      // a struct, not behind a pointer
	opUnmarshaler // a type with an Unmarshal method, not behind a pointer
	opBoolPtr
	opInt32Ptr
	opInt64Ptr
	opStringPtr
	opStructPtr
	opUnmarshalerPtr
	opBools
	opInt32s
	opInt64s
	opStrings
	opStructs
	opUnmarshalers
	opMap
)

// tableField is a field of a Table. Only the fields needed by its op are set.
type tableField struct {
	op              op
	wire            int
	tag             uint64
	offset          uintptr
	typ             reflect.Type       // type of the value, the pointer's target or the element
	elements        *memory.ArrayMaker // of a list
	table           *Table             // of a struct
	unmarshal       func(at unsafe.Pointer, raw []byte) error
	guard           *Guard      // for a type that decodes itself and is not a quantity; may be nil
	memory          int64       // bytes of memory for each occurrence of the field, in addition to the struct; 0 for a map
	pairs           *pairs      // of a map
	projected       bool        // some fields of the value are dropped
	hasQuantity     bool        // the value contains a quantity, which may write to itself when read
	reachesQuantity bool        // a value with hasQuantity is reachable from the value, through a pointer or a list
	share           *share.Site // nil if sharing cannot pay off
}

// pairs describes how to decode a map's entries.
type pairs struct {
	typ      reflect.Type
	key      reflect.Type
	value    *tableField // as if it were a field of the entry
	mapBytes guard.MapBytes
	read     func(d *Decoder, m *pairs, at unsafe.Pointer, run []byte, n int) error
}

// partName identifies a kind of part in protobuf: its type, its selected fields, and whether it is a
// pointer's target, a list's element or a map.
type partName struct {
	typ    any
	op     op
	fields string // the selection's key
}

// textName identifies a string field.
type textName struct {
	of     any
	number int
}

// tables caches the table for each type and selection, or an error if there is none. A program uses only a
// few types, and needs them for as long as it runs.
var tables sync.Map // tableKey → func() (*Table, error)

type tableKey struct {
	typ    reflect.Type
	fields string // the selection's key
}

// TableOf returns a type's table for selection s. The type must not be recursive.
func TableOf(t reflect.Type, s *selection.Tree) (*Table, error) {
	key := tableKey{t, s.Key()}
	compile, ok := tables.Load(key)
	if !ok {
		compile, _ = tables.LoadOrStore(key, sync.OnceValues(func() (*Table, error) { return compileTable(t, s) }))
	}
	return compile.(func() (*Table, error))()
}

// HasTable reports whether a type is decoded with a table: it is one of Kubernetes' own structs, and
// all of its fields have a protobuf tag. Other types decode themselves with their Unmarshal method.
func HasTable(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), "k8s.io/api") || t == reflect.TypeFor[metav1.FieldsV1]() {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		if tag := f.Tag.Get("protobuf"); tag == "" || tag == "-" {
			return false
		}
	}
	return true
}

// isPlainFieldsV1 reports whether t is FieldsV1 represented as a slice of bytes, so that its bytes can be
// part of the object's text. Apimachinery can be built with another representation.
func isPlainFieldsV1(t reflect.Type) bool {
	return t == reflect.TypeFor[metav1.FieldsV1]() && t.NumField() == 1 && t.Field(0).Type.Kind() == reflect.Slice && t.Field(0).Tag.Get("protobuf") != ""
}

func compileTable(t reflect.Type, s *selection.Tree) (*Table, error) {
	table := &Table{typ: t}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() && f.Tag.Get("protobuf") == "" {
			continue // the envelope contains it
		}
		sub, kept := s.Of(f)
		if !kept {
			continue
		}
		number, field, err := compileField(t, f, sub)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		for len(table.fields) <= number {
			table.fields = append(table.fields, nil)
		}
		table.fields[number] = field
		table.reachesQuantity = table.reachesQuantity || field.reachesQuantity
	}
	return table, nil
}

// maxFieldNumber limits the size of tables. The largest field numbers in the API are a few dozen.
const maxFieldNumber = 1 << 12

func compileField(t reflect.Type, f reflect.StructField, s *selection.Tree) (number int, field *tableField, err error) {
	tag := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return 0, nil, fmt.Errorf("protobuf tag %q: want encoding and number", f.Tag.Get("protobuf"))
	}
	number, err = strconv.Atoi(tag[1])
	if err != nil || number < 1 || number > maxFieldNumber {
		return 0, nil, fmt.Errorf("protobuf tag %q: want a field number up to %d", f.Tag.Get("protobuf"), maxFieldNumber)
	}
	// Some tags have a wrong encoding or label ("bytes,3,opt" for an *int32 or a list), so the Go
	// type decides.
	if field, err = fieldOf(f.Type, s); err != nil {
		return 0, nil, err
	}
	if field.op == opString {
		field.share = share.StringSite(textName{t, number})
	}
	field.offset = f.Offset
	field.tag = uint64(number)<<3 | uint64(field.wire)
	return number, field, nil
}

// fieldOf describes how to decode the fields that s selects in a value of type t.
func fieldOf(t reflect.Type, s *selection.Tree) (*tableField, error) {
	f := &tableField{typ: t, wire: frame.WireBytes}
	readsItself := reflect.PointerTo(t).Implements(reflect.TypeFor[Unmarshaler]())
	switch {
	case t.Kind() == reflect.Map && !readsItself:
		return f, f.setMap(s)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !readsItself:
		return f, f.setList(s)
	case t.Kind() == reflect.Pointer:
		return f, f.setPointer(s)
	}
	return f, f.setValue(s)
}

func (f *tableField) setValue(s *selection.Tree) (err error) {
	f.hasQuantity = guard.ContainsQuantity(f.typ)
	switch kind := f.typ.Kind(); {
	case HasTable(f.typ) || s == nil && isPlainFieldsV1(f.typ):
		f.op = opStruct
		if f.table, err = TableOf(f.typ, s); err == nil {
			f.reachesQuantity = f.table.reachesQuantity
		}
	case s == nil && reflect.PointerTo(f.typ).Implements(reflect.TypeFor[Unmarshaler]()):
		f.op, f.unmarshal = opUnmarshaler, unmarshalFunc(f.typ)
		if f.typ != reflect.TypeFor[resource.Quantity]() {
			f.guard = GuardOf(f.typ, map[reflect.Type]*Guard{})
		}
	case kind == reflect.Bool:
		f.op, f.wire = opBool, frame.WireVarint
	case kind == reflect.Int32:
		f.op, f.wire = opInt32, frame.WireVarint
	case kind == reflect.Int64:
		f.op, f.wire = opInt64, frame.WireVarint
	case kind == reflect.String:
		f.op = opString
	case kind == reflect.Slice && f.typ.Elem().Kind() == reflect.Uint8:
		f.op = opBytes
	default:
		err = fmt.Errorf("cannot read %v", f.typ)
	}
	return err
}

// setPointer makes f a pointer to a value for setValue.
func (f *tableField) setPointer(s *selection.Tree) error {
	f.typ = f.typ.Elem()
	if err := f.setValue(s); err != nil {
		return err
	}
	pointers := map[op]op{
		opBool: opBoolPtr, opInt32: opInt32Ptr, opInt64: opInt64Ptr, opString: opStringPtr,
		opStruct: opStructPtr, opUnmarshaler: opUnmarshalerPtr,
	}
	op, ok := pointers[f.op]
	if !ok {
		return fmt.Errorf("cannot read *%v", f.typ)
	}
	f.op, f.memory = op, int64(f.typ.Size())
	if f.reachesQuantity = f.reachesQuantity || f.hasQuantity; op == opStructPtr || op == opUnmarshalerPtr {
		f.setShare(s)
	}
	return nil
}

// setList makes f a list of values for setValue.
func (f *tableField) setList(s *selection.Tree) error {
	f.elements, f.typ = memory.NewArrayMaker(f.typ.Elem()), f.typ.Elem()
	if err := f.setValue(s); err != nil {
		return err
	}
	lists := map[op]op{
		opBool: opBools, opInt32: opInt32s, opInt64: opInt64s, opString: opStrings,
		opStruct: opStructs, opUnmarshaler: opUnmarshalers,
	}
	op, ok := lists[f.op]
	if !ok {
		return fmt.Errorf("cannot read a list of %v", f.typ)
	}
	f.op, f.memory = op, int64(f.typ.Size())
	if f.reachesQuantity = f.reachesQuantity || f.hasQuantity; f.wire == frame.WireBytes {
		f.setShare(s)
	}
	return nil
}

// setShare enables sharing of f's pointer target or elements.
func (f *tableField) setShare(s *selection.Tree) {
	if f.projected = s != nil; f.typ.Size() >= share.OwnMemory && !f.hasQuantity {
		f.share = share.SiteOf(partName{f.typ, f.op, s.Key()})
	}
}

func (f *tableField) setMap(s *selection.Tree) error {
	t := f.typ
	if t.Key().Kind() != reflect.String {
		return fmt.Errorf("cannot read a map with keys of type %v", t.Key())
	}
	value := &tableField{typ: t.Elem(), wire: frame.WireBytes}
	if err := value.setValue(s); err != nil {
		return err
	}
	f.op, f.share, f.projected, f.reachesQuantity = opMap, share.SiteOf(partName{t, opMap, s.Key()}), s != nil, value.reachesQuantity
	f.pairs = &pairs{typ: t, key: t.Key(), value: value, mapBytes: guard.MapBytesOf(t.Key(), t.Elem()), read: readAnyPairs}
	switch {
	case value.wire != frame.WireBytes:
		return fmt.Errorf("cannot read a map with values of type %v", value.typ)
	case value.op == opString:
		f.pairs.read = readStringPairs
	case value.typ == reflect.TypeFor[resource.Quantity]():
		f.pairs.read = readQuantityPairs
	}
	return nil
}

// unmarshalFunc returns a function that calls a type's Unmarshal method and clips the slices that it
// has grown.
func unmarshalFunc(t reflect.Type) func(unsafe.Pointer, []byte) error {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return func(at unsafe.Pointer, raw []byte) error { return (*metav1.Time)(at).Unmarshal(raw) }
	case reflect.TypeFor[resource.Quantity]():
		return func(at unsafe.Pointer, raw []byte) error { return unmarshalQuantity((*resource.Quantity)(at), raw) }
	}
	return func(at unsafe.Pointer, raw []byte) error {
		v := reflect.NewAt(t, at)
		if t.Kind() == reflect.Slice && v.Elem().IsNil() {
			v.Elem().Set(reflect.MakeSlice(t, 0, 0)) // a list that is present is not nil
		}
		err := v.Interface().(Unmarshaler).Unmarshal(raw)
		memory.Clip(v.Elem())
		return err
	}
}

// unmarshalQuantity decodes a quantity. It fails if parsing would take too long.
func unmarshalQuantity(q *resource.Quantity, raw []byte) error {
	// A quantity has only field 1. The reference handles any other field, and lengths of more than one byte.
	if len(raw) < 2 || raw[0] != 1<<3|frame.WireBytes || raw[1] >= 0x80 || int(raw[1]) != len(raw)-2 || guard.AbsurdQuantity(raw[2:]) {
		return fault.ErrUnusual
	}
	return q.Unmarshal(raw)
}

// unshareable reports whether a field's value must not be shared with another object, because an
// addressable quantity can be reached from it. Reading a quantity may write to it, so a reader of one
// object would modify the other. Map values are not addressable: reading one copies it.
func (f *tableField) unshareable(value []byte) bool {
	if !f.reachesQuantity {
		return false
	}
	switch f.op {
	case opUnmarshalerPtr, opUnmarshalers:
		return f.hasQuantity
	case opStructPtr, opStructs:
		return f.hasQuantity || f.table.unshareable(value)
	case opStruct:
		return f.table.unshareable(value)
	}
	_, value, err := keyAndValue(value) // for a map entry
	return err != nil || f.pairs.value.unshareable(value)
}

// anyUnshareable is like unshareable, for several occurrences of a field.
func (f *tableField) anyUnshareable(run []byte) bool {
	if !f.reachesQuantity {
		return false
	}
	for len(run) > 0 {
		var value []byte
		if value, run = nextValue(run); f.unshareable(value) {
			return true
		}
	}
	return false
}

// partUnshareable is like unshareable, for a part.
func (f *tableField) partUnshareable(raw []byte) bool {
	if f.op == opStructPtr || f.op == opUnmarshalerPtr {
		return f.unshareable(raw)
	}
	return f.anyUnshareable(raw)
}

// unshareable reports whether a field in the message is unshareable.
func (t *Table) unshareable(msg []byte) bool {
	if !t.reachesQuantity {
		return false
	}
	for len(msg) > 0 {
		field, rest, err := NextField(msg)
		if err != nil {
			return true // the message cannot be decoded
		}
		if n := field.Number; n < len(t.fields) && t.fields[n] != nil && t.fields[n].unshareable(field.Bytes) {
			return true
		}
		msg = rest
	}
	return false
}
