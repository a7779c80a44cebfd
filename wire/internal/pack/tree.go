package pack

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// The types of values in a tree.
const (
	treeNil byte = iota
	treeFalse
	treeTrue
	treeInt
	treeFloat
	treeString
	treeList
	treeMap
)

// AppendTree appends a value from an untyped object: nil, a bool, an int64, a float64, a string, or
// a []any or map[string]any of such values. It fails for any other type.
func AppendTree(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(dst, treeNil), nil
	case bool:
		if v {
			return append(dst, treeTrue), nil
		}
		return append(dst, treeFalse), nil
	case int64:
		return binary.AppendVarint(append(dst, treeInt), v), nil
	case float64:
		return binary.LittleEndian.AppendUint64(append(dst, treeFloat), math.Float64bits(v)), nil
	case string:
		return AppendString(append(dst, treeString), v), nil
	case []any:
		if v == nil {
			return append(dst, treeList, 0), nil
		}
		dst = binary.AppendUvarint(append(dst, treeList), uint64(len(v))+1)
		for _, item := range v {
			var err error
			if dst, err = AppendTree(dst, item); err != nil {
				return dst, err
			}
		}
		return dst, nil
	case map[string]any:
		return appendMap(append(dst, treeMap), v)
	}
	return dst, fmt.Errorf("a %T cannot be part of an untyped object: want nil, bool, int64, float64, string, []any or map[string]any", value)
}

// appendMap appends a map sorted by key, so that equal maps have equal bytes.
func appendMap(dst []byte, v map[string]any) ([]byte, error) {
	if v == nil {
		return append(dst, 0), nil
	}
	dst = binary.AppendUvarint(dst, uint64(len(v))+1)
	keys := make([]string, 0, 16)
	for key := range v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		dst = AppendString(dst, key)
		var err error
		if dst, err = AppendTree(dst, v[key]); err != nil {
			return dst, fmt.Errorf("%s: %w", key, err)
		}
	}
	return dst, nil
}

// Tree reads a value written by AppendTree. raw must not contain anything else. The value's strings are parts
// of raw. If raw is corrupt, Tree fails with ErrDamaged.
func Tree(raw string) (any, error) {
	t := tree{rest: raw}
	value := t.value(0)
	if t.damaged || t.rest != "" {
		return nil, fmt.Errorf("%w: invalid untyped object of %d bytes", ErrDamaged, len(raw))
	}
	return value, nil
}

// tree is the remaining input.
type tree struct {
	rest    string
	owed    int // values declared by lists and maps but not yet read
	damaged bool
}

// deepest is the maximum nesting depth, which limits recursion on corrupt bytes. It exceeds the
// depth that decoders allow.
const deepest = 100_000

func (t *tree) value(depth int) any {
	if t.damaged = t.damaged || t.rest == "" || depth > deepest; t.damaged {
		return nil
	}
	kind := t.rest[0]
	t.rest = t.rest[1:]
	switch kind {
	case treeNil:
		return nil
	case treeFalse, treeTrue:
		return kind == treeTrue
	case treeInt:
		n := t.uvarint()
		return int64(n>>1) ^ -int64(n&1)
	case treeFloat:
		return t.float()
	case treeString:
		return t.string()
	case treeList:
		return t.list(depth)
	case treeMap:
		return t.mapping(depth)
	}
	t.damaged = true
	return nil
}

func (t *tree) float() any {
	if len(t.rest) < 8 {
		t.damaged = true
		return nil
	}
	bits := binary.LittleEndian.Uint64([]byte(t.rest[:8]))
	t.rest = t.rest[8:]
	return math.Float64frombits(bits)
}

func (t *tree) list(depth int) any {
	n, none := t.length()
	if none {
		return []any(nil)
	}
	list := make([]any, 0, n)
	for range n {
		t.owed--
		list = append(list, t.value(depth+1))
		if t.damaged {
			return nil
		}
	}
	return list
}

func (t *tree) mapping(depth int) any {
	n, none := t.length()
	if none {
		return map[string]any(nil)
	}
	m := make(map[string]any, n)
	for range n {
		t.owed--
		key := t.string()
		if m[key] = t.value(depth + 1); t.damaged {
			return nil
		}
	}
	return m
}

// length reads the number of values in a list or map. It fails if fewer bytes are left than values are
// declared, including those of the surrounding lists, because each value takes at least one byte. Therefore
// nested lists cannot claim the same bytes twice. none reports a nil list or map.
func (t *tree) length() (n int, none bool) {
	length := t.uvarint()
	if length == 0 {
		return 0, true
	}
	if length-1 > uint64(max(0, len(t.rest)-t.owed)) {
		t.damaged = true
		return 0, true
	}
	t.owed += int(length - 1)
	return int(length - 1), false
}

func (t *tree) string() string {
	n := t.uvarint()
	if n > uint64(len(t.rest)) {
		t.damaged = true
		return ""
	}
	s := t.rest[:n]
	t.rest = t.rest[n:]
	return s
}

func (t *tree) uvarint() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		if t.rest == "" {
			break
		}
		b := t.rest[0]
		t.rest = t.rest[1:]
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n
		}
	}
	t.damaged = true
	return 0
}
