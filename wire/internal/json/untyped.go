package json

import (
	"bytes"
	"strconv"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// untypedDecoder decodes values without a Go type: objects become map[string]any, arrays become []any, and
// numbers become int64 if they are integers in range, or float64 otherwise.
//
// It decodes a value in two steps. The first splits the value into a row of nodes and counts its
// strings, numbers and elements. The second builds the value, with one allocation of the exact size for all
// text, one for all string headers, and so on.
type untypedDecoder struct {
	*walk
	share.Sharer
	paths
	nodes   []node
	backing backing
	sizes   untypedSizes
}

// node is a value in the row, or the start of an object or array, whose elements follow it.
type node struct {
	kind  nodeKind
	named bool           // the object may keep name
	n     int64          // number of elements, length of the text, or value of the number
	at    unsafe.Pointer // text, or a part
	name  string         // of a field
}

type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeFalse
	nodeTrue
	nodeInt
	nodeFloat
	nodeText   // its bytes must be copied
	nodeBacked // its bytes do not have to be copied
	nodeString // an existing string
	nodeObject
	nodeArray
	nodeObjectPart // an existing map
	nodeArrayPart
	nodeDropped // an unwanted field or element
)

// untypedSizes is the amount of memory of each kind that the nodes need.
type untypedSizes struct{ text, strings, numbers, arrays, elements int }

// maxReusedNodes is the maximum length of a row that is kept for the next value.
const maxReusedNodes = 1 << 12

// begin prepares for an object. If there are too many positions, it discards all of them.
func (f *untypedDecoder) begin() {
	if f.objects++; f.pathCount >= maxPaths {
		f.paths.forget()
		f.Sharer.ForgetStats()
	}
}

// end is called after each object. It releases the row if the object was huge.
func (f *untypedDecoder) end() {
	if cap(f.nodes) > maxReusedNodes {
		f.nodes = nil
	}
	f.texts.Release()
	f.EndObject()
}

func (f *untypedDecoder) value(s *path) (any, error) {
	return f.standalone(f.readValue, s, backing{})
}

// standalone decodes a value into its own memory.
func (f *untypedDecoder) standalone(read func(*path) error, s *path, own backing) (v any, err error) {
	first, need, was := len(f.nodes), f.sizes, f.backing
	f.sizes, f.backing = untypedSizes{}, own
	if err = read(s); err == nil {
		m := newBuilder(f.nodes[first:], f.sizes)
		v = m.value()
	}
	clear(f.nodes[first:])
	f.nodes, f.sizes, f.backing = f.nodes[:first], need, was
	return v, err
}

// readValue reads the next value and appends it to the row.
func (f *untypedDecoder) readValue(s *path) error {
	c := f.peek()
	switch {
	case c == '{' || c == '[':
		return f.part(s)
	case !s.wanted.KeepsValues():
		f.push(node{kind: nodeDropped}) // a value without fields cannot have selected fields
		return f.skip()
	}
	switch c {
	case '"':
		return f.string(s)
	case 't':
		f.push(node{kind: nodeTrue})
		return f.literal("true")
	case 'f':
		f.push(node{kind: nodeFalse})
		return f.literal("false")
	case 'n':
		f.push(node{kind: nodeNull})
		return f.literal("null")
	}
	return f.digits()
}

// reserve grows the row to fit a value's nodes at once rather than step by step. Each node follows a comma
// or an opening bracket, so reserve counts those bytes. Text may contain them too, so the count is capped
// at half the length of raw: each node takes up at least two bytes.
func (f *untypedDecoder) reserve(raw []byte) {
	if len(raw)/2 <= cap(f.nodes) {
		return
	}
	n := 1
	for _, begin := range []string{",", "{", "["} {
		n += bytes.Count(raw, []byte(begin))
	}
	if n = min(n, len(raw)/2+1); n > cap(f.nodes) {
		f.nodes = make([]node, 0, n)
	}
}

func (f *untypedDecoder) push(n node) { f.nodes = append(f.nodes, n) }

func (f *untypedDecoder) string(s *path) error {
	text, plain, err := f.text()
	if err != nil {
		return err
	}
	if !f.Budget.Take(1, guard.TextBytes) {
		return fault.ErrUnusual
	}
	if plain && f.Pool != nil {
		if known := f.repeatedText(s, text); known != nil {
			f.push(node{kind: nodeString, at: unsafe.Pointer(known)})
			return nil
		}
	}
	f.sizes.strings++
	if plain && f.backing.raw != nil {
		// The text ends one byte before f.at, at the quote.
		start := f.at - 1 - len(text) - f.backing.start
		f.push(node{kind: nodeBacked, at: unsafe.Pointer(&f.backing.raw[start]), n: int64(len(text))})
		return nil
	}
	if !plain {
		if text, err = unescape(nil, text); err != nil {
			return err
		}
	}
	f.sizes.text += len(text)
	f.push(node{kind: nodeText, at: unsafe.Pointer(unsafe.SliceData(text)), n: int64(len(text))})
	return nil
}

func (f *untypedDecoder) digits() error {
	text, whole, err := f.number()
	if err != nil {
		return err
	}
	if !f.Budget.Take(1, guard.NumberBytes) {
		return fault.ErrUnusual
	}
	if whole {
		if v, err := wholeNumber(text); err == nil {
			if !isSmall(v) {
				f.sizes.numbers++
			}
			f.push(node{kind: nodeInt, n: v})
			return nil
		}
	}
	v, err := strconv.ParseFloat(memory.String(text), 64)
	f.push(node{kind: nodeFloat, at: unsafe.Pointer(&v)})
	return fault.Unusual(err)
}

// part appends an object or array: either as a shared value, or as its elements.
func (f *untypedDecoder) part(s *path) error {
	raw := f.containerBytes()
	if len(f.nodes) == 0 {
		f.reserve(raw)
	}
	// A projected part would keep all its bytes alive, including the unselected ones.
	if s.wanted != nil || !f.Worthwhile(s.share, len(raw)) {
		return f.container(s)
	}
	kind := nodeObjectPart
	if raw[0] == '[' {
		kind = nodeArrayPart
	}
	found, _, hash, keep := f.Find(s.share, raw)
	if found != nil && f.Budget < 0 {
		return fault.ErrUnusual
	}
	if found != nil {
		f.skipContainer()
		f.push(node{kind: kind, at: found})
		return nil
	}
	if !keep {
		return f.container(s)
	}
	kept := f.BeginPart(raw)
	v, err := f.standalone(f.container, s, backing{raw: kept, start: f.at})
	holds := f.EndPart(raw)
	if err != nil {
		return err
	}
	at := (*anyHeader)(unsafe.Pointer(&v)).data
	f.Remember(s.share, hash, kept, at, 0, holds)
	f.push(node{kind: kind, at: at})
	return nil
}

// container appends an object or array and its elements.
func (f *untypedDecoder) container(s *path) error {
	row := len(f.nodes)
	f.push(node{kind: nodeObject})
	var n int
	var err error
	if f.Raw[f.at] == '{' {
		n, err = f.fields(s)
	} else {
		f.nodes[row].kind = nodeArray
		n, err = f.elements(f.element(s))
		f.sizes.arrays++
		f.sizes.elements += n
	}
	f.nodes[row].n = int64(n)
	return err
}

func (f *untypedDecoder) elements(s *path) (n int, err error) {
	if !f.Budget.Take(1, guard.ListBytes) {
		return 0, fault.ErrUnusual
	}
	for more := f.enter(']'); more; n++ {
		if !f.Budget.Take(1, guard.ElementBytes) {
			return n, fault.ErrUnusual
		}
		if err = f.readValue(s); err != nil {
			return n, err
		}
		if more, err = f.more(']'); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *untypedDecoder) fields(s *path) (n int, err error) {
	likely := &s.first
	size := guard.UntypedMap.First
	for more := f.enter('}'); more; {
		at, name, err := f.name(s, *likely)
		if err != nil {
			return n, err
		}
		if err := f.colon(); err != nil {
			return n, err
		}
		if !at.catchAll {
			*likely, likely = at, &at.next
		}
		switch {
		case at.dropped:
			err = f.skip()
		case !f.Budget.Take(1, size):
			err = fault.ErrUnusual
		default:
			err = f.fieldValue(at, name)
			size = guard.UntypedMap.Each
			n++
		}
		if err != nil {
			return n, err
		}
		if more, err = f.more('}'); err != nil {
			return n, err
		}
	}
	if n == 0 && !f.Budget.Take(1, guard.UntypedMap.Of(0)) {
		return 0, fault.ErrUnusual
	}
	return n, nil
}

func (f *untypedDecoder) fieldValue(at *path, name string) error {
	row := len(f.nodes)
	if err := f.readValue(at); err != nil {
		return err
	}
	f.nodes[row].name, f.nodes[row].named = name, !at.catchAll
	if at.catchAll {
		f.sizes.text += len(name)
	}
	return nil
}

// name reads a field's name. If its position is unknown, the name points into the body.
func (f *untypedDecoder) name(s, likely *path) (*path, string, error) {
	if f.peek() != '"' {
		return nil, "", fault.ErrUnusual
	}
	if likely != nil {
		rest := f.Raw[f.at+1:]
		if l := len(likely.name); l < len(rest) && rest[l] == '"' && string(rest[:l]) == likely.name {
			f.at += l + 2
			return likely, likely.name, nil
		}
	}
	text, plain, err := f.text()
	if err != nil {
		return nil, "", err
	}
	if !plain {
		if text, err = unescape(nil, text); err != nil {
			return nil, "", err
		}
		return f.catchAllField(s.wanted.Field(string(text))), memory.String(text), nil
	}
	at := f.field(s, text)
	if at.catchAll {
		return at, memory.String(text), nil
	}
	return at, at.name, nil
}
