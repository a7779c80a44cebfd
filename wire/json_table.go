package wire

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

// jsonKind says how to read values of one Go type from JSON. It is built once for
// each type from the type's layout and tags, and then immutable. Only the fields
// that its op needs are set.
type jsonKind struct {
	op       jsonOp
	typ      reflect.Type
	size     uintptr
	bits     int            // of a number
	first    byte           // with which every value begins but null; 0 where that is not known
	table    *jsonTable     // of a struct
	elem     *jsonKind      // of what a pointer, a slice or a map holds
	elements *memory.Arrays // of a slice
	partly   bool           // not all of a value is wanted
	share    *share.Site    // nil where sharing cannot pay
	quantity bool           // a type that is not read here holds quantities
}

// jsonOp is what is done with a value.
type jsonOp uint8

const (
	jsonUnknown   jsonOp = iota // the reference reads the whole object
	jsonReference               // the reference reads the value: rare types
	jsonOwn                     // a type that reads itself
	jsonTime
	jsonQuantity
	jsonBool
	jsonInt
	jsonUint
	jsonFloat
	jsonString
	jsonBytes
	jsonAny
	jsonStruct
	jsonPointer
	jsonSlice
	jsonMap
)

// jsonTable says where the fields of a struct are.
type jsonTable struct {
	fields []jsonField
	byName map[string]*jsonField
	start  int // the place before the first field
}

// jsonField is a field of a struct, or of one that is embedded in it.
type jsonField struct {
	name   string
	number int // in the table
	place  int // under which a run knows its habits
	offset uintptr
	kind   *jsonKind
	share  *share.Site // of a string, where sharing it may pay
}

// jsonPart names a kind of part in JSON: the type of what is pointed to, of an
// element or of a map, and which of these it is.
type jsonPart struct {
	typ    reflect.Type
	op     jsonOp
	wanted string // key of a selection
}

// jsonText names a string field.
type jsonText struct {
	of   reflect.Type
	name string
}

// maxJSONFields bounds the structs that have a table. The widest of the API has
// some forty fields.
const maxJSONFields = 256

// jsonKinds holds the kinds of all types that were asked for. The types of a
// program are few and live as long as it does.
var jsonKinds = struct {
	sync.Mutex
	known  map[jsonKindKey]*jsonKind
	places int
}{known: make(map[jsonKindKey]*jsonKind)}

// jsonKindKey names a kind: a type, and what of it is wanted.
type jsonKindKey struct {
	typ    reflect.Type
	wanted string // key of a selection
}

// jsonKindOf returns the kind of a type for a selection. The type may contain
// itself.
func jsonKindOf(t reflect.Type, s *selection.Tree) *jsonKind {
	jsonKinds.Lock()
	defer jsonKinds.Unlock()
	return makeJSONKind(t, s)
}

// makeJSONKind requires that jsonKinds is locked. The lock is released when the kind
// and everything it leads to is complete.
func makeJSONKind(t reflect.Type, s *selection.Tree) *jsonKind {
	key := jsonKindKey{t, s.Key()}
	k := jsonKinds.known[key]
	if k == nil {
		k = &jsonKind{typ: t, size: t.Size(), partly: s != nil}
		jsonKinds.known[key] = k
		k.set(s)
	}
	return k
}

func (k *jsonKind) set(s *selection.Tree) {
	k.setAll(s)
	switch {
	case s == nil:
	case k.op == jsonStruct, k.op == jsonPointer, k.op == jsonSlice, k.op == jsonMap:
	default:
		k.op = jsonUnknown // a part of what has no parts here
	}
}

func (k *jsonKind) setAll(s *selection.Tree) {
	t := k.typ
	// Methods count where a value has an address and its type a name.
	if p := reflect.PointerTo(t); t.Name() != "" && t.Kind() != reflect.Pointer {
		switch {
		case t == reflect.TypeFor[metav1.Time]():
			k.op = jsonTime
			return
		case t == reflect.TypeFor[resource.Quantity]():
			k.op = jsonQuantity
			return
		case p.Implements(reflect.TypeFor[json.Unmarshaler]()):
			k.op, k.quantity = jsonOwn, guard.HoldsQuantity(t)
			return
		case p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), t == reflect.TypeFor[json.Number]():
			k.leave()
			return
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		k.op = jsonBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		k.op, k.bits = jsonInt, t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		k.op, k.bits = jsonUint, t.Bits()
	case reflect.Float32, reflect.Float64:
		k.op, k.bits = jsonFloat, t.Bits()
	case reflect.String:
		k.op = jsonString
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
func (k *jsonKind) leave() {
	k.op, k.quantity = jsonReference, guard.HoldsQuantity(k.typ)
	if k.typ.Name() == "" && reflect.PointerTo(k.typ).NumMethod() > 0 {
		k.op = jsonUnknown
	}
}

func (k *jsonKind) setInterface() {
	if k.op = jsonAny; k.typ.NumMethod() > 0 {
		k.leave()
	}
}

func (k *jsonKind) setPointer(s *selection.Tree) {
	elem := k.typ.Elem()
	if k.typ.Name() != "" || elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Interface ||
		elem.Name() == "" && reflect.PointerTo(elem).NumMethod() > 0 {
		k.leave()
		return
	}
	k.op, k.elem = jsonPointer, makeJSONKind(elem, s)
	if (k.elem.op == jsonStruct || k.elem.op == jsonOwn) && k.elem.size >= share.OwnMemory {
		k.share = share.SiteOf(jsonPart{elem, jsonPointer, s.Key()})
	}
}

func (k *jsonKind) setSlice(s *selection.Tree) {
	elem := k.typ.Elem()
	if elem.Kind() == reflect.Uint8 {
		if k.op = jsonBytes; elem != reflect.TypeFor[byte]() {
			k.leave()
		}
		return
	}
	k.op, k.elem, k.elements = jsonSlice, makeJSONKind(elem, s), memory.NewArrays(elem)
	switch k.elem.op {
	case jsonBool, jsonInt, jsonUint, jsonFloat:
	default:
		if k.elem.size >= share.OwnMemory {
			k.share = share.SiteOf(jsonPart{elem, jsonSlice, s.Key()})
		}
	}
}

func (k *jsonKind) setMap(s *selection.Tree) {
	key := k.typ.Key()
	if key.Kind() != reflect.String || reflect.PointerTo(key).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		k.leave()
		return
	}
	k.op, k.elem = jsonMap, makeJSONKind(k.typ.Elem(), s)
	k.share = share.SiteOf(jsonPart{k.typ, jsonMap, s.Key()})
}

func (k *jsonKind) setStruct(s *selection.Tree) {
	table := new(jsonTable)
	if err := table.add(k.typ, 0, s); err != nil {
		k.leave()
		return
	}
	table.byName = make(map[string]*jsonField, len(table.fields))
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
	k.op, k.table, k.first = jsonStruct, table, '{'
}

// newPlace needs jsonKinds to be locked.
func newPlace() int {
	jsonKinds.places++
	return jsonKinds.places
}

// add adds the wanted fields of a struct at an offset of the table's.
func (t *jsonTable) add(of reflect.Type, offset uintptr, s *selection.Tree) error {
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
		if len(t.fields) == maxJSONFields {
			return fmt.Errorf("more than %d fields", maxJSONFields)
		}
		field := jsonField{name: name, offset: offset + f.Offset, kind: makeJSONKind(f.Type, wanted)}
		if field.kind.op == jsonString {
			field.share = share.StringSite(jsonText{of, name})
		}
		t.fields = append(t.fields, field)
	}
	return nil
}

// nameBytes are the characters of usual names.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
