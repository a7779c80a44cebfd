package json

import (
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

// Kind says how to read values of one Go type from JSON. It is built once for
// each type from the type's layout and tags, and then immutable. Only the fields
// that its op needs are set.
type Kind struct {
	op       op
	typ      reflect.Type
	size     uintptr
	bits     int                // of a number
	first    byte               // with which every value begins but null; 0 where that is not known
	table    *table             // of a struct
	elem     *Kind              // of what a pointer, a slice or a map holds
	elements *memory.ArrayMaker // of a slice
	partly   bool               // not all of a value is wanted
	share    *share.Site        // nil where sharing cannot pay
	quantity bool               // a type that is not read here holds quantities
	guard    *guard.Guard       // of a type that is not read here; may be nil
	mapBytes guard.MapBytes     // of a map

	quantities func() [][]byte // of a pointer, a slice or a map; see namesOfQuantities
}

// ReadsObjects reports whether the values are structs that have a table.
func (k *Kind) ReadsObjects() bool { return k.op == opStruct }

// op is what is done with a value.
type op uint8

const (
	opUnknown   op = iota // the reference reads the whole object
	opReference           // the reference reads the value: rare types
	opOwn                 // a type that reads itself
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

// table says where the fields of a struct are.
type table struct {
	fields []tableField
	byName map[string]*tableField
	start  int // the place before the first field
}

// tableField is a field of a struct, or of one that is embedded in it.
type tableField struct {
	name   string
	number int // in the table
	place  int // under which a run knows its habits
	offset uintptr
	kind   *Kind
	share  *share.Site // of a string, where sharing it may pay
}

// partName names a kind of part in JSON: the type of what is pointed to, of an
// element or of a map, and which of these it is.
type partName struct {
	typ    reflect.Type
	op     op
	wanted string // key of a selection
}

// textName names a string field.
type textName struct {
	of   reflect.Type
	name string
}

// maxFields bounds the structs that have a table. The widest of the API has
// some forty fields.
const maxFields = 256

// kinds holds the kinds of all types that were asked for. The types of a
// program are few and live as long as it does.
var kinds = struct {
	sync.Mutex
	known  map[kindKey]*Kind
	places int
}{known: make(map[kindKey]*Kind)}

// kindKey names a kind: a type, and what of it is wanted.
type kindKey struct {
	typ    reflect.Type
	wanted string // key of a selection
}

// KindOf returns the kind of a type for a selection. The type may contain
// itself.
func KindOf(t reflect.Type, s *selection.Tree) *Kind {
	kinds.Lock()
	defer kinds.Unlock()
	return makeKind(t, s)
}

// makeKind requires that kinds is locked. The lock is released when the kind
// and everything it leads to is complete.
func makeKind(t reflect.Type, s *selection.Tree) *Kind {
	key := kindKey{t, s.Key()}
	k := kinds.known[key]
	if k == nil {
		k = &Kind{typ: t, size: t.Size(), partly: s != nil}
		kinds.known[key] = k
		k.set(s)
	}
	return k
}

func (k *Kind) set(s *selection.Tree) {
	k.setAll(s)
	switch {
	case s == nil:
	case k.op == opStruct, k.op == opPointer, k.op == opSlice, k.op == opMap:
	default:
		k.op = opUnknown // a part of what has no parts here
	}
}

func (k *Kind) setAll(s *selection.Tree) {
	t := k.typ
	// Methods count where a value has an address and its type a name.
	if p := reflect.PointerTo(t); t.Name() != "" && t.Kind() != reflect.Pointer {
		switch {
		case t == reflect.TypeFor[metav1.Time]():
			k.op = opTime
			return
		case t == reflect.TypeFor[resource.Quantity]():
			k.op = opQuantity
			return
		case p.Implements(reflect.TypeFor[json.Unmarshaler]()):
			k.op = opOwn
			k.setGuard()
			return
		case p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), t == reflect.TypeFor[json.Number]():
			k.leave()
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
		k.leave()
	}
}

// leave leaves values of the type to the reference. If a value by itself has methods
// that it does not have as a part, the reference reads the whole object.
func (k *Kind) leave() {
	k.op = opReference
	k.setGuard()
	if k.typ.Name() == "" && reflect.PointerTo(k.typ).NumMethod() > 0 {
		k.op = opUnknown
	}
}

// setGuard is for types that are not read here.
func (k *Kind) setGuard() {
	k.quantity = guard.ReachesQuantity(k.typ)
	if g := guard.Of(k.typ); g != nil && g.Form != guard.Raw {
		k.guard = g
	}
}

func (k *Kind) setInterface() {
	if k.op = opAny; k.typ.NumMethod() > 0 {
		k.leave()
	}
}

func (k *Kind) setPointer(s *selection.Tree) {
	elem := k.typ.Elem()
	if k.typ.Name() != "" || elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Interface ||
		elem.Name() == "" && reflect.PointerTo(elem).NumMethod() > 0 {
		k.leave()
		return
	}
	k.op, k.elem, k.quantities = opPointer, makeKind(elem, s), sync.OnceValue(k.namesOfQuantities)
	if (k.elem.op == opStruct || k.elem.op == opOwn) && k.elem.size >= share.OwnMemory {
		k.share = share.SiteOf(partName{elem, opPointer, s.Key()})
	}
}

func (k *Kind) setSlice(s *selection.Tree) {
	elem := k.typ.Elem()
	if elem.Kind() == reflect.Uint8 {
		if k.op = opBytes; elem != reflect.TypeFor[byte]() {
			k.leave()
		}
		return
	}
	k.op, k.elem, k.elements, k.quantities = opSlice, makeKind(elem, s), memory.NewArrayMaker(elem), sync.OnceValue(k.namesOfQuantities)
	switch k.elem.op {
	case opBool, opInt, opUint, opFloat:
	default:
		if k.elem.size >= share.OwnMemory {
			k.share = share.SiteOf(partName{elem, opSlice, s.Key()})
		}
	}
}

func (k *Kind) setMap(s *selection.Tree) {
	key := k.typ.Key()
	if key.Kind() != reflect.String || reflect.PointerTo(key).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		k.leave()
		return
	}
	k.op, k.elem, k.quantities = opMap, makeKind(k.typ.Elem(), s), sync.OnceValue(k.namesOfQuantities)
	k.mapBytes = guard.MapBytesOf(key, k.typ.Elem())
	k.share = share.SiteOf(partName{k.typ, opMap, s.Key()})
}

func (k *Kind) setStruct(s *selection.Tree) {
	table := new(table)
	if err := table.add(k.typ, 0, s); err != nil {
		k.leave()
		return
	}
	table.byName = make(map[string]*tableField, len(table.fields))
	for i := range table.fields {
		f := &table.fields[i]
		f.number, f.place = i, newPlace()
		if table.byName[f.name] != nil {
			k.leave() // Go has rules for which of them is meant
			return
		}
		table.byName[f.name] = f
	}
	table.start = newPlace()
	k.op, k.table, k.first = opStruct, table, '{'
}

// newPlace needs kinds to be locked.
func newPlace() int {
	kinds.places++
	return kinds.places
}

// add adds the wanted fields of a struct at an offset of the table's.
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
		field := tableField{name: name, offset: offset + f.Offset, kind: makeKind(f.Type, wanted)}
		if field.kind.op == opString {
			field.share = share.StringSite(textName{of, name})
		}
		t.fields = append(t.fields, field)
	}
	return nil
}

// nameBytes are the characters of usual names.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
