package webhook

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one step of a JSON patch.
type operation struct {
	op, path string
	value    any // unused if op is remove
}

// MarshalJSON encodes the value, even if it is null, unless op is remove.
func (o operation) MarshalJSON() ([]byte, error) {
	if o.op == "remove" {
		return marshal(map[string]any{"op": o.op, "path": o.path})
	}
	return marshal(map[string]any{"op": o.op, "path": o.path, "value": o.value})
}

// patch is a JSON patch (RFC 6902) under construction.
type patch []operation

// newPatch returns the patch that applies a change to raw, the object as sent by the API server. before and
// after are our Go type's encoding of the object.
func newPatch(raw, before, after []byte) (patch, error) {
	var values [3]any
	for n, text := range [][]byte{raw, before, after} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&values[n]); err != nil {
			return nil, err
		}
	}
	var p patch
	p.value("", "replace", values[0], merged(values[0], values[1], values[2]))
	return p, nil
}

// value adds the operations that turn raw, at path, into wanted. If it has to set the whole value, it uses
// op: "add" in an object, where it also replaces members, and "replace" in an array, where "add" would
// insert.
func (p *patch) value(path, op string, raw, wanted any) {
	if reflect.DeepEqual(raw, wanted) {
		return
	}
	switch wanted := wanted.(type) {
	case map[string]any:
		if raw, ok := raw.(map[string]any); ok {
			p.object(path, raw, wanted)
			return
		}
	case []any:
		if raw, ok := raw.([]any); ok {
			p.array(path, raw, wanted)
			return
		}
	}
	*p = append(*p, operation{op, path, wanted})
}

func (p *patch) object(path string, raw, wanted map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if _, stays := wanted[name]; !stays {
			*p = append(*p, operation{"remove", member(path, name), nil})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if was, here := raw[name]; here {
			p.value(member(path, name), "add", was, wanted[name])
		} else {
			*p = append(*p, operation{"add", member(path, name), wanted[name]})
		}
	}
}

// array leaves equal elements at both ends alone. If the arrays have the same length, it changes the
// elements in between one by one; otherwise it replaces them.
func (p *patch) array(path string, raw, wanted []any) {
	if len(raw) == len(wanted) {
		for n := range wanted {
			p.value(element(path, n), "replace", raw[n], wanted[n])
		}
		return
	}
	start := 0
	for start < min(len(raw), len(wanted)) && reflect.DeepEqual(raw[start], wanted[start]) {
		start++
	}
	end := 0
	for end < min(len(raw), len(wanted))-start && reflect.DeepEqual(raw[len(raw)-1-end], wanted[len(wanted)-1-end]) {
		end++
	}
	for n := len(raw) - end - 1; n >= start; n-- {
		*p = append(*p, operation{"remove", element(path, n), nil})
	}
	for n := start; n < len(wanted)-end; n++ {
		*p = append(*p, operation{"add", element(path, n), wanted[n]})
	}
}

// member returns the path to an object's member (RFC 6901).
func member(path, name string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func element(path string, n int) string { return path + "/" + strconv.Itoa(n) }
