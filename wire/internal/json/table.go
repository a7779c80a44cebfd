package json

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/selection"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// TypeInfo describes how to decode values of one Go type from JSON. It is built once per type
// from the type's layout and tags, and is immutable afterwards. Only the fields needed by its op
// are set.
type TypeInfo struct {
	op        op
	typ       reflect.Type
	size      uintptr
	bits      int                // of a number
	first     byte               // first byte of every value except null; 0 if unknown
	table     *table             // of a struct
	elem      *TypeInfo          // TypeInfo for a pointer's target, or for the elements of a slice or map
	elements  *memory.ArrayMaker // of a slice
	projected bool               // some fields of the value are dropped
	share     *share.Site        // nil if sharing cannot pay off
	quantity  bool               // for a type left to the reference: it contains quantities
	guard     *guard.Guard       // guard of a type left to the reference; may be nil
	mapBytes  guard.MapBytes     // of a map

	quantityFields func() [][]byte // for a pointer, a slice or a map; see quantityFieldNames
}

// ReadsObjects reports whether the values are structs that have a table.
func (k *TypeInfo) ReadsObjects() bool { return k.op == opStruct }

// op determines how a value is decoded.
type op uint8

const (
	opUnknown     op = iota // the reference decodes the whole object
	opReference             // the reference decodes the value; used for rare types
	opUnmarshaler           // the type has an UnmarshalJSON method
	opTime
	opQuantity
	opBool
	opInt
	opUint
	opFloat
	opString
	opBytes
	opAny
	opStruct
	opPointer
	opSlice
	opMap
)

// table describes a struct's fields.
type table struct {
	fields []tableField
	byName map[string]*tableField
	start  int // the place before the first field
}

// tableField is a field of a struct, or of a struct embedded in it.
type tableField struct {
	name     string
	number   int // index in the table
	place    int // index of the decoder's data about the field
	offset   uintptr
	typeInfo *TypeInfo
	share    *share.Site // for a string, if sharing it may pay off
}

// partName identifies a kind of part in JSON: its type, its selected fields, and whether it is a pointer's
// target, a slice's element or a map.
type partName struct {
	typ    reflect.Type
	op     op
	wanted string // the selection's key
}

// textName identifies a string field.
type textName struct {
	of   reflect.Type
	name string
}

// maxFields is the maximum number of fields in a struct with a table. The API's largest struct has
// about forty.
const maxFields = 256

// typeInfos caches all TypeInfos. A program uses only a few types, and needs them for as long as it
// runs.
var typeInfos = struct {
	sync.Mutex
	known  map[typeKey]*TypeInfo
	places int
}{known: make(map[typeKey]*TypeInfo)}

// typeKey identifies a TypeInfo: a type and a selection of its fields.
type typeKey struct {
	typ    reflect.Type
	wanted string // the selection's key
}

// TypeInfoOf returns a type's TypeInfo for a selection. The type may be recursive.
func TypeInfoOf(t reflect.Type, s *selection.Tree) *TypeInfo {
	typeInfos.Lock()
	defer typeInfos.Unlock()
	return makeTypeInfo(t, s)
}

// makeTypeInfo must be called with typeInfos locked. The caller unlocks it once the TypeInfo and
// everything reachable from it are complete.
func makeTypeInfo(t reflect.Type, s *selection.Tree) *TypeInfo {
	key := typeKey{t, s.Key()}
	k := typeInfos.known[key]
	if k == nil {
		k = &TypeInfo{typ: t, size: t.Size(), projected: s != nil}
		typeInfos.known[key] = k
		k.set(s)
	}
	return k
}

func (k *TypeInfo) set(s *selection.Tree) {
	k.setAll(s)
	switch {
	case s == nil:
	case k.op == opStruct, k.op == opPointer, k.op == opSlice, k.op == opMap:
	default:
		k.op = opUnknown // selection of fields in a value without fields
	}
}

func (k *TypeInfo) setAll(s *selection.Tree) {
	t := k.typ
	// The pointer type's methods apply if a value is addressable and its type has a name.
	if p := reflect.PointerTo(t); t.Name() != "" && t.Kind() != reflect.Pointer {
		switch {
		case t == reflect.TypeFor[metav1.Time]():
			k.op = opTime
			return
		case t == reflect.TypeFor[resource.Quantity]():
			k.op = opQuantity
			return
		case p.Implements(reflect.TypeFor[json.Unmarshaler]()):
			k.op = opUnmarshaler
			k.setGuard()
			return
		case p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), t == reflect.TypeFor[json.Number]():
			k.leaveToReference()
			return
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		k.op = opBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		k.op, k.bits = opInt, t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		k.op, k.bits = opUint, t.Bits()
	case reflect.Float32, reflect.Float64:
		k.op, k.bits = opFloat, t.Bits()
	case reflect.String:
		k.op = opString
	case reflect.Interface:
		k.setInterface()
	case reflect.Struct:
		k.setStruct(s)
	case reflect.Pointer:
		k.setPointer(s)
	case reflect.Slice:
		k.setSlice(s)
	case reflect.Map:
		k.setMap(s)
	default:
		k.leaveToReference()
	}
}

// leaveToReference makes the reference decode values of the type. If a top-level value has methods that it
// lacks when nested in another value, the reference decodes the whole object.
func (k *TypeInfo) leaveToReference() {
	k.op = opReference
	k.setGuard()
	if k.typ.Name() == "" && reflect.PointerTo(k.typ).NumMethod() > 0 {
		k.op = opUnknown
	}
}

// setGuard sets the guard of a type that the reference decodes.
func (k *TypeInfo) setGuard() {
	k.quantity = guard.ReachesQuantity(k.typ)
	if g := guard.Of(k.typ); g != nil && g.Form != guard.Raw {
		k.guard = g
	}
}

func (k *TypeInfo) setInterface() {
	if k.op = opAny; k.typ.NumMethod() > 0 {
		k.leaveToReference()
	}
}

func (k *TypeInfo) setPointer(s *selection.Tree) {
	elem := k.typ.Elem()
	if k.typ.Name() != "" || elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Interface ||
		elem.Name() == "" && reflect.PointerTo(elem).NumMethod() > 0 {
		k.leaveToReference()
		return
	}
	k.op, k.elem, k.quantityFields = opPointer, makeTypeInfo(elem, s), sync.OnceValue(k.quantityFieldNames)
	if (k.elem.op == opStruct || k.elem.op == opUnmarshaler) && k.elem.size >= share.OwnMemory {
		k.share = share.SiteOf(partName{elem, opPointer, s.Key()})
	}
}

func (k *TypeInfo) setSlice(s *selection.Tree) {
	elem := k.typ.Elem()
	if elem.Kind() == reflect.Uint8 {
		if k.op = opBytes; elem != reflect.TypeFor[byte]() {
			k.leaveToReference()
		}
		return
	}
	k.op, k.elem, k.elements, k.quantityFields = opSlice, makeTypeInfo(elem, s), memory.NewArrayMaker(elem), sync.OnceValue(k.quantityFieldNames)
	switch k.elem.op {
	case opBool, opInt, opUint, opFloat:
	default:
		if k.elem.size >= share.OwnMemory {
			k.share = share.SiteOf(partName{elem, opSlice, s.Key()})
		}
	}
}

func (k *TypeInfo) setMap(s *selection.Tree) {
	key := k.typ.Key()
	if key.Kind() != reflect.String || reflect.PointerTo(key).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		k.leaveToReference()
		return
	}
	k.op, k.elem, k.quantityFields = opMap, makeTypeInfo(k.typ.Elem(), s), sync.OnceValue(k.quantityFieldNames)
	k.mapBytes = guard.MapBytesOf(key, k.typ.Elem())
	k.share = share.SiteOf(partName{k.typ, opMap, s.Key()})
}

func (k *TypeInfo) setStruct(s *selection.Tree) {
	table := new(table)
	if err := table.add(k.typ, 0, s); err != nil {
		k.leaveToReference()
		return
	}
	table.byName = make(map[string]*tableField, len(table.fields))
	for i := range table.fields {
		f := &table.fields[i]
		f.number, f.place = i, newPlace()
		if table.byName[f.name] != nil {
			k.leaveToReference() // Go's rules decide which of the two fields is used
			return
		}
		table.byName[f.name] = f
	}
	table.start = newPlace()
	k.op, k.table, k.first = opStruct, table, '{'
}

// newPlace must be called with typeInfos locked.
func newPlace() int {
	typeInfos.places++
	return typeInfos.places
}

// add adds the wanted fields of a struct at an offset within the table's struct.
func (t *table) add(of reflect.Type, offset uintptr, s *selection.Tree) error {
	for i := range of.NumField() {
		f := of.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case !f.IsExported():
			return fmt.Errorf("%s: embedded and not exported", f.Name)
		case slices.Contains(strings.Split(options, ","), "string"):
			return fmt.Errorf("%s: a value in quotes", f.Name)
		case strings.Trim(name, nameBytes) != "":
			return fmt.Errorf("%s: an unusual name", f.Name)
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			if err := t.add(f.Type, offset+f.Offset, s); err != nil {
				return err
			}
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Pointer:
			return fmt.Errorf("%s: embedded as a pointer", f.Name)
		case name == "":
			name = f.Name
		}
		wanted, kept := s.Field(name)
		if !kept {
			continue
		}
		if len(t.fields) == maxFields {
			return fmt.Errorf("more than %d fields", maxFields)
		}
		field := tableField{name: name, offset: offset + f.Offset, typeInfo: makeTypeInfo(f.Type, wanted)}
		if field.typeInfo.op == opString {
			field.share = share.StringSite(textName{of, name})
		}
		t.fields = append(t.fields, field)
	}
	return nil
}

// nameBytes are the bytes that occur in ordinary names.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

// unshareable reports whether a part must not be shared with another object, because an addressable
// quantity can be reached from it. Reading a quantity may write to it, so a reader of one object
// would modify the other. Map values are not addressable: reading one copies it. unshareable only searches
// for field names, so it may return true merely because some text happens to equal such a name.
func (k *TypeInfo) unshareable(raw []byte) bool {
	return slices.ContainsFunc(k.quantityFields(), func(name []byte) bool { return bytes.Contains(raw, name) })
}

// quantityFieldNames returns the quoted names of the fields below a part that point to quantities
// or to values that contain quantities. If the part itself contains a quantity, the result includes the empty
// name, which occurs in every text.
func (k *TypeInfo) quantityFieldNames() (names [][]byte) {
	type way struct {
		to   *TypeInfo
		name string
	}
	gone := make(map[way]bool)
	var follow func(k *TypeInfo, name string)
	follow = func(k *TypeInfo, name string) {
		if gone[way{k, name}] {
			return
		}
		gone[way{k, name}] = true
		switch {
		case k.op == opStruct:
			for _, f := range k.table.fields {
				follow(f.typeInfo, `"`+f.name+`"`)
			}
		case k.quantity, k.elem != nil && k.op != opMap && guard.ContainsQuantity(k.elem.typ):
			names = append(names, []byte(name))
		case k.elem != nil:
			follow(k.elem, name)
		}
	}
	follow(k, "")
	return names
}
