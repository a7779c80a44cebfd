package diff

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
)

// Change is a field in which two states of an object differ.
type Change struct {
	Path     string // such as spec.containers[web].image
	Old, New any    // the values
	Had, Has bool   // whether the field exists in the old and in the new state
}

// Between returns the differences between two states, the most important ones first: spec and status before
// metadata, plain values before trees, times last. It omits fields that change with every write
// (resourceVersion, generation, managedFields).
func Between(old, new object.Object) ([]Change, error) {
	a, err := Content(old)
	if err != nil {
		return nil, err
	}
	b, err := Content(new)
	if err != nil {
		return nil, err
	}
	var found []Change
	walk("", a, b, &found)
	found = slices.DeleteFunc(found, func(c Change) bool {
		return c.Path == "metadata.resourceVersion" || c.Path == "metadata.generation" || strings.HasPrefix(c.Path, "metadata.managedFields")
	})
	slices.SortStableFunc(found, func(a, b Change) int { return a.rank() - b.rank() })
	return found, nil
}

// Content returns an object as a tree of maps and lists, which must not be modified.
func Content(o object.Object) (map[string]any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", object.FormatKey(object.KeyOf(o)), err)
	}
	return tree, nil
}

// rank orders changes by importance.
func (c Change) rank() int {
	rank := 4
	switch top, _, _ := strings.Cut(c.Path, "."); {
	case strings.HasSuffix(c.Path, "Time"), strings.HasSuffix(c.Path, "Timestamp"):
		rank = 8
	case top == "spec":
		rank = 0
	case top == "status":
		rank = 2
	case top == "metadata":
		rank = 6
	}
	switch c.New.(type) {
	case map[string]any, []any:
		rank++
	}
	return rank
}

// walk compares two subtrees.
func walk(path string, a, b any, found *[]Change) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			walkMaps(path, x, y, func(name string) string { return join(path, name) }, found)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			walkLists(path, x, y, found)
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		*found = append(*found, Change{Path: path, Old: a, New: b, Had: true, Has: true})
	}
}

func walkMaps(path string, a, b map[string]any, place func(string) string, found *[]Change) {
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, had := a[name]
		y, has := b[name]
		if had && has {
			walk(place(name), x, y, found)
			continue
		}
		*found = append(*found, Change{Path: place(name), Old: x, New: y, Had: had, Has: has})
	}
}

// walkLists compares lists by item name if the items have names, by position if the lists have the same length, and as
// a whole otherwise.
func walkLists(path string, a, b []any, found *[]Change) {
	for _, field := range []string{"name", "type", "uid", "ip"} {
		x, ok := byName(a, field)
		y, alike := byName(b, field)
		if ok && alike {
			walkMaps(path, x, y, func(name string) string { return path + "[" + name + "]" }, found)
			return
		}
	}
	if len(a) != len(b) {
		*found = append(*found, Change{Path: path, Old: a, New: b, Had: true, Has: true})
		return
	}
	for i := range a {
		walk(path+"["+strconv.Itoa(i)+"]", a[i], b[i], found)
	}
}

// byName indexes a list if one of the fields uniquely identifies its items.
func byName(list []any, field string) (map[string]any, bool) {
	named := make(map[string]any, len(list))
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		name, ok := fields[field].(string)
		if _, twice := named[name]; !ok || twice {
			return nil, false
		}
		named[name] = item
	}
	return named, true
}

// join appends a field name to a path. Names containing a dot, such as label keys, are put in brackets.
func join(path, name string) string {
	switch {
	case strings.Contains(name, "."):
		return path + "[" + name + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// Text formats a change: "status.phase: Pending→Running", "+spec.nodeName=n1", "-metadata.labels.app".
// Without values it shows only the path.
func (c Change) Text(values bool) string {
	switch {
	case !c.Has:
		return "-" + c.Path
	case !c.Had && values:
		return "+" + c.Path + "=" + Brief(c.New)
	case !c.Had:
		return "+" + c.Path
	case values:
		return c.Path + ": " + Brief(c.Old) + "→" + Brief(c.New)
	}
	return c.Path
}

// Brief formats a value, abbreviated.
func Brief(v any) string {
	const most = 32
	switch v := v.(type) {
	case map[string]any:
		return fmt.Sprintf("{%d}", len(v))
	case []any:
		return fmt.Sprintf("[%d]", len(v))
	case nil:
		return "null"
	case string:
		if runes := []rune(v); len(runes) > most {
			v = string(runes[:most-1]) + "…"
		}
		if v == "" || strings.ContainsAny(v, " ,→") || strconv.Quote(v) != `"`+v+`"` {
			return strconv.Quote(v)
		}
		return v
	}
	return fmt.Sprint(v)
}

// Summarize formats the first few changes.
func Summarize(changes []Change, values bool) string {
	const most = 3
	texts := make([]string, 0, most+1)
	for i, c := range changes {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(changes)-most))
			break
		}
		texts = append(texts, c.Text(values))
	}
	return strings.Join(texts, ", ")
}
