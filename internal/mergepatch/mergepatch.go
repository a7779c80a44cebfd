// Package mergepatch makes JSON merge patches (RFC 7386) of two states of an object.
package mergepatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
)

// Fields returns an object as JSON has it. Its numbers are json.Number: an int64 has no
// place in a float64.
func Fields(o any) (map[string]any, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return fields, nil
}

// Between is what makes after of before: null for what goes, the value for what comes or
// changes, and the same for what is within. Where nothing was set before, it has all of
// after; zeros says whether that was so and there was a zero value which is there before
// and after.
func Between(before, after map[string]any) (patch map[string]any, zeros bool) {
	patch = make(map[string]any)
	for name := range before {
		if _, stays := after[name]; !stays {
			patch[name] = nil
		}
	}
	same := make(map[string]any)
	for name, value := range after {
		old := before[name]
		within, isObject := value.(map[string]any)
		oldWithin, wasObject := old.(map[string]any)
		switch {
		case isObject && wasObject:
			inner, innerZeros := Between(oldWithin, within)
			if len(inner) > 0 {
				patch[name] = inner
			} else {
				same[name] = value
			}
			zeros = zeros || innerZeros
		case !reflect.DeepEqual(old, value): // what is null is as good as missing
			patch[name] = value
		default:
			same[name] = value
		}
	}
	if len(patch) == 0 || len(same) == 0 || !isZero(before) {
		return patch, zeros
	}
	maps.Copy(patch, same)
	return patch, true
}

// isZero reports whether a value in JSON is what Go writes for a zero value.
func isZero(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, within := range v {
			if !isZero(within) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case json.Number:
		return v == "0"
	}
	return value == nil || value == "" || value == false
}

// Lists yields the paths of the lists in a patch, such as "metadata.finalizers": each
// replaces the one that is there.
func Lists(patch map[string]any) (paths []string) {
	for name, value := range patch {
		switch v := value.(type) {
		case []any:
			paths = append(paths, name)
		case map[string]any:
			for _, path := range Lists(v) {
				paths = append(paths, name+"."+path)
			}
		}
	}
	return paths
}

// Carry puts the resource version into a patch, so that it fails with a conflict where
// the object has another one.
func Carry(patch map[string]any, version string) {
	if version == "" {
		return
	}
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = make(map[string]any)
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"] = version
}
