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
		return json.Marshal(map[string]any{"op": o.op, "path": o.path})
	}
	return json.Marshal(map[string]any{"op": o.op, "path": o.path, "value": o.value})
}

// patch is a JSON patch (RFC 6902) in the making.
type patch []operation

// newPatch returns what makes of raw, the object as the API server has it, what
// a change has made of it in our Go type: before and after are the object as
// that type writes it. The difference is taken between these two, so that
// fields which the type does not know stay in raw; but each step must fit raw,
// which may lack what the type writes always.
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
	p.value("", "replace", values[0], values[1], values[2])
	return p, nil
}

// value makes of what is at path what after is. op is how to do it where no
// smaller steps will: in an object "add", which replaces a member too, and in an
// array "replace", because there "add" inserts.
func (p *patch) value(path, op string, raw, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch after := after.(type) {
	case map[string]any:
		before, ok := before.(map[string]any)
		if raw, here := raw.(map[string]any); ok && here {
			p.object(path, raw, before, after)
			return
		}
	case []any:
		before, ok := before.([]any)
		if raw, here := raw.([]any); ok && here && len(raw) == len(before) {
			p.array(path, raw, before, after)
			return
		}
	}
	*p = append(*p, operation{op, path, after})
}

func (p *patch) object(path string, raw, before, after map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		_, stays := after[name]
		if _, here := raw[name]; here && !stays {
			*p = append(*p, operation{"remove", member(path, name), nil})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if was, known := before[name]; known {
			p.value(member(path, name), "add", raw[name], was, after[name])
		} else {
			*p = append(*p, operation{"add", member(path, name), after[name]})
		}
	}
}

// array leaves what is equal at both ends. What is between is changed element
// by element where there are as many as before, so that unknown fields of each
// are kept, and else exchanged.
func (p *patch) array(path string, raw, before, after []any) {
	start := 0
	for start < min(len(before), len(after)) && reflect.DeepEqual(before[start], after[start]) {
		start++
	}
	end := 0
	for end < min(len(before), len(after))-start && reflect.DeepEqual(before[len(before)-1-end], after[len(after)-1-end]) {
		end++
	}
	if len(before) == len(after) {
		for n := start; n < len(after)-end; n++ {
			p.value(element(path, n), "replace", raw[n], before[n], after[n])
		}
		return
	}
	for n := len(before) - end - 1; n >= start; n-- {
		*p = append(*p, operation{"remove", element(path, n), nil})
	}
	for n := start; n < len(after)-end; n++ {
		*p = append(*p, operation{"add", element(path, n), after[n]})
	}
}

// member is the path of a member of an object (RFC 6901).
func member(path, name string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func element(path string, n int) string { return path + "/" + strconv.Itoa(n) }
