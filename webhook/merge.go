package webhook

import (
	"encoding/json"
	"maps"
	"reflect"
)

// merged applies the changes between before and after to raw. Fields unknown to our Go type exist only in
// raw and are preserved. Fields that the type always encodes, but that raw may lack, are added only if they
// changed.
func merged(raw, before, after any) any {
	if reflect.DeepEqual(before, after) {
		return raw
	}
	switch after := after.(type) {
	case map[string]any:
		before, ok := before.(map[string]any)
		if raw, here := raw.(map[string]any); ok && here {
			return mergedObject(raw, before, after)
		}
	case []any:
		before, ok := before.([]any)
		if raw, here := raw.([]any); ok && here && len(raw) == len(before) {
			return mergedArray(raw, before, after)
		}
	}
	return after
}

func mergedObject(raw, before, after map[string]any) map[string]any {
	all := maps.Clone(raw)
	for name := range before {
		if _, stays := after[name]; !stays {
			delete(all, name)
		}
	}
	for name, value := range after {
		was, known := before[name]
		if has, here := raw[name]; here && known {
			all[name] = merged(has, was, value)
		} else if !known || !reflect.DeepEqual(was, value) {
			all[name] = value
		}
	}
	return all
}

func mergedArray(raw, before, after []any) []any {
	all := make([]any, len(after))
	for n, m := range origins(before, after) {
		if all[n] = after[n]; m >= 0 {
			all[n] = merged(raw[m], before[m], after[n])
		}
	}
	return all
}

// origins returns, for each element of after, its index in before, or -1 if it is new. An element
// matches an equal one, or one with the same name if that name is unique. An element without a name is
// matched by index if the arrays have the same length.
func origins(before, after []any) []int {
	origins, taken := make([]int, len(after)), make([]bool, len(before))
	for n := range origins {
		origins[n] = -1
	}
	for _, pass := range []struct {
		mark func(any) string
		any  bool // duplicate marks are allowed
	}{{text, true}, {nameOf, false}} {
		free, asking := map[string][]int{}, map[string]int{}
		for m, e := range before {
			if by := pass.mark(e); by != "" && !taken[m] {
				free[by] = append(free[by], m)
			}
		}
		for n, e := range after {
			if origins[n] < 0 {
				asking[pass.mark(e)]++
			}
		}
		for n, e := range after {
			by := pass.mark(e)
			if origins[n] >= 0 || len(free[by]) == 0 || !pass.any && (len(free[by]) > 1 || asking[by] > 1) {
				continue
			}
			origins[n], free[by] = free[by][0], free[by][1:]
			taken[origins[n]] = true
		}
	}
	for n := range after {
		if len(after) == len(before) && origins[n] < 0 && !taken[n] {
			if was, is := nameOf(before[n]), nameOf(after[n]); was == "" || is == "" || was == is {
				origins[n] = n
			}
		}
	}
	return origins
}

// text returns a value as JSON with sorted keys.
func text(value any) string {
	t, _ := json.Marshal(value) // cannot fail, because the value was decoded from JSON
	return string(t)
}

// nameOf returns the value that the API server uses to identify an array element, or "". Most element types
// have one of these fields.
func nameOf(element any) string {
	o, _ := element.(map[string]any)
	for _, field := range []string{"mountPath", "devicePath", "name", "key", "type", "ip"} {
		if name, _ := o[field].(string); name != "" {
			return field + " " + name
		}
	}
	return ""
}
