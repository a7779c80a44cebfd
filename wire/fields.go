package wire

import (
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/wire/internal/selection"
)

// Fields selects object fields. Other fields are skipped while decoding, at practically no cost in time or
// memory. The zero value selects all fields.
//
// A path consists of JSON field names separated by dots, such as "spec.nodeName" or "metadata.labels", and
// includes everything below that field. A path traverses pointers, list elements and map values:
// "spec.containers.image" is the image of every container. In an unstructured object, maps and objects look
// the same, so a path matches the keys of both. Keys that contain a dot or a comma cannot be part of a path.
// A string may contain several paths, separated by commas.
//
// An object's name, namespace, UID and resource version are always selected; see [Decoder] for its
// APIVersion and kind. An unselected field is left empty: it has the zero value in a Go struct, and its key
// is missing from an unstructured object. Everything on the path to a selected field is preserved: a
// pointer is nil only if it is nil in the object, and lists keep their lengths.
//
// Do not write back an object that lacks fields: the server would delete them. Use a patch, or read
// the object again. An object that lacks only its managed fields may be updated, because the server
// keeps them if an update contains none.
//
// Fields are immutable and comparable: equal selections are equal (==).
type Fields struct {
	mode  fieldsMode
	paths string // sorted, separated by commas, no path below another
}

type fieldsMode uint8

const (
	fieldsUnsaid fieldsMode = iota
	fieldsOnly
	fieldsWithout
)

// WithoutManagedFields selects all fields except metadata.managedFields, which is big in most objects and
// rarely read.
var WithoutManagedFields = Without("metadata.managedFields")

// Only selects the fields at the given paths and no others. [NewDecoder] fails if the Go type lacks
// one of them.
func Only(paths ...string) Fields { return Fields{fieldsOnly, canonicalPaths(paths)} }

// Without selects all fields except those at the given paths. Without(), with no paths, selects all
// fields explicitly. [NewDecoder] fails if the Go type lacks one of the paths.
func Without(paths ...string) Fields { return Fields{fieldsWithout, canonicalPaths(paths)} }

func canonicalPaths(paths []string) string {
	all := strings.Split(strings.Join(paths, ","), ",")
	all = slices.DeleteFunc(all, func(p string) bool { return p == "" })
	kept := slices.DeleteFunc(slices.Clone(all), func(p string) bool {
		return slices.ContainsFunc(all, func(q string) bool { return strings.HasPrefix(p, q+".") })
	})
	slices.Sort(kept)
	return strings.Join(slices.Compact(kept), ",")
}

// IsZero reports whether f is the zero value. Without() is not the zero value, although it also selects all
// fields.
func (f Fields) IsZero() bool { return f == Fields{} }

// Keeps reports whether f selects the field at path or any field below it.
func (f Fields) Keeps(path string) bool {
	s := f.selection()
	for name := range strings.SplitSeq(path, ".") {
		below, kept := s.Field(name)
		if !kept {
			return false
		}
		s = below
	}
	return true
}

// KeepsAll reports whether f selects the field at path and everything below it.
func (f Fields) KeepsAll(path string) bool {
	if selection.IsIdentity(path) {
		return true
	}
	within := func(path, other string) bool { return path == other || strings.HasPrefix(path, other+".") }
	switch f.mode {
	case fieldsOnly:
		return slices.ContainsFunc(f.split(), func(p string) bool { return within(path, p) })
	case fieldsWithout:
		return !slices.ContainsFunc(f.split(), func(p string) bool { return within(path, p) || within(p, path) })
	}
	return true
}

// Whole reports whether an object with these fields may be written back: f selects all fields, or
// all except the managed fields, which the server keeps.
func (f Fields) Whole() bool {
	return f.mode == fieldsUnsaid || f == Without() || f == WithoutManagedFields
}

// String returns "all fields", "only spec.nodeName,status.phase" or "without
// metadata.managedFields".
func (f Fields) String() string {
	switch {
	case f.mode == fieldsOnly && f.paths == "":
		return "only the identity"
	case f.mode == fieldsOnly:
		return "only " + f.paths
	case f.paths != "":
		return "without " + f.paths
	}
	return "all fields"
}

func (f Fields) split() []string {
	if f.paths == "" {
		return nil
	}
	return strings.Split(f.paths, ",")
}

// selection returns f as a tree.
func (f Fields) selection() *selection.Tree {
	if f.mode == fieldsOnly {
		return selection.Only(f.split())
	}
	return selection.Without(f.split())
}
