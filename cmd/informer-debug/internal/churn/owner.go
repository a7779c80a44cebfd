package churn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// nobody is the manager reported for fields missing from managedFields.
const nobody = "unknown"

// owners determines who changed a field from the object's managedFields: the last writer among the managers
// that own it.
type owners struct {
	entries []owner // entries changed by this write first, then newest first
}

// owner is one of an object's managers.
type owner struct {
	name   string
	wrote  bool // whether this write changed the entry
	at     time.Time
	fields map[string]any // the FieldsV1 tree, keyed by "f:NAME", "k:{...}" and "v:..."
}

// ownersOf reads the managedFields of an object and of its previous state.
func ownersOf(old, new *unstructured.Unstructured) owners {
	before := map[string]metav1.ManagedFieldsEntry{}
	for _, m := range old.GetManagedFields() {
		before[entryID(&m)] = m
	}
	var all owners
	for _, m := range new.GetManagedFields() {
		var o owner
		was, had := before[entryID(&m)]
		o.wrote = !had || !m.Time.Equal(was.Time) || !bytes.Equal(rawFields(&m), rawFields(&was))
		if o.name = m.Manager; o.name == "" {
			o.name = nobody
		}
		if m.Subresource != "" {
			o.name += " (" + m.Subresource + ")"
		}
		if m.Time != nil {
			o.at = m.Time.Time
		}
		_ = json.Unmarshal(rawFields(&m), &o.fields) // an invalid entry does not own anything
		all.entries = append(all.entries, o)
	}
	return all
}

// entryID identifies an entry in managedFields.
func entryID(m *metav1.ManagedFieldsEntry) string {
	return fmt.Sprintf("%q %q %q %q", m.Manager, m.Operation, m.APIVersion, m.Subresource)
}

// rawFields returns an entry's FieldsV1 tree in JSON; an invalid tree is empty.
func rawFields(m *metav1.ManagedFieldsEntry) []byte {
	if m.FieldsV1 == nil {
		return nil
	}
	text, err := m.FieldsV1.MarshalJSON()
	if err != nil {
		return nil
	}
	return text
}

// of returns the manager that changed the field at path, in the form returned by [diff.Between]. For a
// removed field, which has no owner, it returns the last writer.
func (all owners) of(path string, has bool) string {
	words := splitPath(path)
	best, found := owner{name: nobody}, false
	for _, o := range all.entries {
		if has && !owns(o.fields, words) {
			continue
		}
		if !found || o.wrote && !best.wrote || o.wrote == best.wrote && o.at.After(best.at) {
			best, found = o, true
		}
	}
	return best.name
}

// last returns the last writer.
func (all owners) last() string { return all.of("", false) }

// owns reports whether a FieldsV1 tree contains the path words, a field below it, or an enclosing field that
// has no entries itself.
func owns(fields map[string]any, words []string) bool {
	if fields == nil {
		return false
	}
	if len(words) == 0 {
		return true
	}
	child, ok := childOf(fields, words[0])
	if !ok {
		return isSet(fields)
	}
	for name := range child {
		if name != "." {
			return owns(child, words[1:])
		}
	}
	return true
}

// isSet reports whether fields describes a list whose items are owned by value. Paths cannot express such
// ownership.
func isSet(fields map[string]any) bool {
	for name := range fields {
		if strings.HasPrefix(name, "v:") {
			return true
		}
	}
	return false
}

// childOf returns the subtree for one word of a path: a member, or a list item by key.
func childOf(fields map[string]any, word string) (map[string]any, bool) {
	if child, ok := fields["f:"+word].(map[string]any); ok {
		return child, true
	}
	if child, ok := fields["i:"+word].(map[string]any); ok {
		return child, true
	}
	for name, child := range fields {
		text, ok := strings.CutPrefix(name, "k:")
		if !ok || !strings.Contains(text, word) {
			continue
		}
		var keys map[string]any
		if json.Unmarshal([]byte(text), &keys) != nil {
			continue
		}
		for _, v := range keys {
			if below, ok := child.(map[string]any); ok && v == word {
				return below, true
			}
		}
	}
	return nil, false
}

// splitPath splits a path into words: spec.containers[web].image has four.
func splitPath(path string) (words []string) {
	for path != "" {
		if inside, ok := strings.CutPrefix(path, "["); ok {
			end := strings.Index(inside, "]")
			if end < 0 {
				return append(words, inside)
			}
			words, path = append(words, inside[:end]), strings.TrimPrefix(inside[end+1:], ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return append(words, path)
		}
		words, path = append(words, path[:end]), strings.TrimPrefix(path[end:], ".")
	}
	return words
}
