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
	value    any // where op is not remove
}

// MarshalJSON writes the value exactly where there is to be one, null or not.
func (o operation) MarshalJSON() ([]byte, error) {
	if o.op == "remove" {
		return marshal(map[string]any{"op": o.op, "path": o.path})
	}
	return marshal(map[string]any{"op": o.op, "path": o.path, "value": o.value})
}

// patch is a JSON patch (RFC 6902) in the making.
type patch []operation

// newPatch returns what makes of raw, the object as the API server has it, what
// a change has made of it in our Go type: before and after are the object as
// that type writes it.
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

// value makes of what is at path what wanted is. op is how to do it where no
// smaller steps will: in an object "add", which replaces a member too, and in an
// array "replace", because there "add" inserts.
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

// array leaves what is equal at both ends. What is between is changed element
// by element where there are as many as before, and else exchanged.
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

// member is the path of a member of an object (RFC 6901).
func member(path, name string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func element(path string, n int) string { return path + "/" + strconv.Itoa(n) }
