package json

import (
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// builder builds a value from a row of nodes.
type builder struct {
	nodes    []node
	text     []byte
	strings  []string
	numbers  []int64
	arrays   [][]any
	elements []any
}

func newBuilder(nodes []node, need untypedSizes) builder {
	return builder{
		nodes:    nodes,
		text:     make([]byte, 0, need.text),
		strings:  make([]string, 0, need.strings),
		numbers:  make([]int64, 0, need.numbers),
		arrays:   make([][]any, 0, need.arrays),
		elements: make([]any, 0, need.elements),
	}
}

// anyHeader is the memory layout of an interface value: a type and a pointer to the value. If the
// value is itself a pointer, such as a map, it is stored directly.
type anyHeader struct {
	typ, data unsafe.Pointer
}

// pointTo returns an interface value of v's type whose value is at at. The compiler does the
// same, but allocates each value separately. The value must not change afterwards.
func pointTo(v any, at unsafe.Pointer) any {
	(*anyHeader)(unsafe.Pointer(&v)).data = at
	return v
}

// value returns the next value in the row.
func (b *builder) value() any {
	n := &b.nodes[0]
	b.nodes = b.nodes[1:]
	switch n.kind {
	case nodeTrue:
		return true
	case nodeFalse:
		return false
	case nodeInt:
		return b.number(n.n)
	case nodeFloat:
		return *(*float64)(n.at)
	case nodeText:
		return b.string(b.copy(unsafe.String((*byte)(n.at), n.n)))
	case nodeBacked:
		return b.string(unsafe.String((*byte)(n.at), n.n))
	case nodeString:
		return pointTo("", n.at)
	case nodeObject:
		return b.object(int(n.n))
	case nodeArray:
		return b.array(int(n.n))
	case nodeObjectPart:
		return pointTo(map[string]any(nil), n.at)
	case nodeArrayPart:
		return pointTo([]any(nil), n.at)
	}
	return nil
}

// copy copies text into the memory allocated for this value's strings.
func (b *builder) copy(text string) string {
	start := len(b.text)
	b.text = append(b.text, text...)
	return memory.String(b.text[start:])
}

func (b *builder) string(s string) any {
	b.strings = append(b.strings, s)
	return pointTo("", unsafe.Pointer(&b.strings[len(b.strings)-1]))
}

// isSmall reports whether converting v to an interface does not allocate.
func isSmall(v int64) bool { return uint64(v) < 256 }

func (b *builder) number(v int64) any {
	if isSmall(v) {
		return v
	}
	b.numbers = append(b.numbers, v)
	return pointTo(int64(0), unsafe.Pointer(&b.numbers[len(b.numbers)-1]))
}

func (b *builder) object(n int) any {
	fields := make(map[string]any, n)
	for range n {
		name := b.nodes[0].name
		if !b.nodes[0].named {
			name = b.copy(name)
		}
		if b.nodes[0].kind == nodeDropped {
			b.nodes = b.nodes[1:]
			delete(fields, name) // if two fields have the same name, the second one wins
			continue
		}
		fields[name] = b.value()
	}
	return fields
}

func (b *builder) array(n int) any {
	start := len(b.elements)
	b.elements = b.elements[:start+n]
	elements := b.elements[start : start+n : start+n]
	b.arrays = append(b.arrays, elements)
	array := &b.arrays[len(b.arrays)-1]
	for i := range elements {
		elements[i] = b.value()
	}
	return pointTo([]any(nil), unsafe.Pointer(array))
}
