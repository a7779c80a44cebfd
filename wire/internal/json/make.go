package json

import (
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// maker makes a value of a row of nodes.
type maker struct {
	nodes    []node
	text     []byte
	strings  []string
	numbers  []int64
	arrays   [][]any
	elements []any
}

func newMaker(nodes []node, need freeNeed) maker {
	return maker{
		nodes:    nodes,
		text:     make([]byte, 0, need.text),
		strings:  make([]string, 0, need.strings),
		numbers:  make([]int64, 0, need.numbers),
		arrays:   make([][]any, 0, need.arrays),
		elements: make([]any, 0, need.elements),
	}
}

// anyHeader is an interface value as it lies in memory: a type, and a pointer
// to the value, or the value itself where it is a pointer, as a map is.
type anyHeader struct {
	typ, data unsafe.Pointer
}

// pointTo makes v, whose type stays as it is, a value that lies at at. That is
// what the compiler does, but it allocates each value by itself. The value must
// not change any more.
func pointTo(v any, at unsafe.Pointer) any {
	(*anyHeader)(unsafe.Pointer(&v)).data = at
	return v
}

// value makes the next value of the row.
func (m *maker) value() any {
	n := &m.nodes[0]
	m.nodes = m.nodes[1:]
	switch n.kind {
	case nodeTrue:
		return true
	case nodeFalse:
		return false
	case nodeInt:
		return m.number(n.n)
	case nodeFloat:
		return *(*float64)(n.at)
	case nodeText:
		return m.string(m.copy(unsafe.String((*byte)(n.at), n.n)))
	case nodeLasting:
		return m.string(unsafe.String((*byte)(n.at), n.n))
	case nodeString:
		return pointTo("", n.at)
	case nodeObject:
		return m.object(int(n.n))
	case nodeArray:
		return m.array(int(n.n))
	case nodeObjectPart:
		return pointTo(map[string]any(nil), n.at)
	case nodeArrayPart:
		return pointTo([]any(nil), n.at)
	}
	return nil
}

// copy gives a text a place among those of this value.
func (m *maker) copy(text string) string {
	start := len(m.text)
	m.text = append(m.text, text...)
	return memory.String(m.text[start:])
}

func (m *maker) string(s string) any {
	m.strings = append(m.strings, s)
	return pointTo("", unsafe.Pointer(&m.strings[len(m.strings)-1]))
}

// isSmall reports whether v becomes an interface value without an allocation.
func isSmall(v int64) bool { return uint64(v) < 256 }

func (m *maker) number(v int64) any {
	if isSmall(v) {
		return v
	}
	m.numbers = append(m.numbers, v)
	return pointTo(int64(0), unsafe.Pointer(&m.numbers[len(m.numbers)-1]))
}

func (m *maker) object(n int) any {
	fields := make(map[string]any, n)
	for range n {
		name := m.nodes[0].name
		if !m.nodes[0].named {
			name = m.copy(name)
		}
		if m.nodes[0].kind == nodeDropped {
			m.nodes = m.nodes[1:]
			delete(fields, name) // of two fields with one name, the second counts
			continue
		}
		fields[name] = m.value()
	}
	return fields
}

func (m *maker) array(n int) any {
	start := len(m.elements)
	m.elements = m.elements[:start+n]
	elements := m.elements[start : start+n : start+n]
	m.arrays = append(m.arrays, elements)
	array := &m.arrays[len(m.arrays)-1]
	for i := range elements {
		elements[i] = m.value()
	}
	return pointTo([]any(nil), unsafe.Pointer(array))
}
