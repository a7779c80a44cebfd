package wire

import (
	"slices"
	"strings"
)

// Fields says which fields of objects are wanted. What is not is left out while
// an object is decoded: it costs neither time nor memory. The zero value wants
// all of them.
//
// A field is named by its path in JSON, such as "spec.nodeName" or
// "metadata.labels", and stands for all that is below it. A path passes through
// pointers, through the elements of lists and through the values of maps:
// "spec.containers.image" is the image of every container. Of an unstructured
// object, where a map cannot be told from an object, a path names the keys of
// both. Keys that hold a dot or a comma cannot be named; several paths may stand
// in one string, separated by commas.
//
// Name, namespace, UID and resource version of an object are always wanted, and
// its apiVersion and kind are as Decoder says. What is left out reads as if it
// were empty: a zero value in Go, no key in an unstructured object. What is on
// the way to a wanted field stays as it was: a pointer is nil only where the
// object has nothing there, and lists keep their lengths.
//
// An object that lacks fields must not be written back whole: to the server,
// what is missing is what somebody deleted. Patch it, or read it anew. Without
// managed fields alone an object may be updated, since the server keeps them
// where an update has none.
//
// Fields are immutable, and equal (==) where they say the same.
type Fields struct {
	mode  fieldsMode
	paths string // sorted, none of them below another; separated by commas
}

type fieldsMode uint8

const (
	fieldsUnsaid fieldsMode = iota
	fieldsOnly
	fieldsWithout
)

// WithoutManagedFields wants all but metadata.managedFields, which are
// long in most objects and of use to nearly nobody.
var WithoutManagedFields = Without("metadata.managedFields")

// Only wants the fields at the paths and no others. Paths that a type does not
// have are found out by NewDecoder.
func Only(paths ...string) Fields { return Fields{fieldsOnly, canonicalPaths(paths)} }

// Without wants all fields but those at the paths; without any, it says that all
// are wanted. Paths that a type does not have are found out by NewDecoder.
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

// IsZero reports whether nothing was said. Without() is not zero, although it
// wants the same: all fields.
func (f Fields) IsZero() bool { return f == Fields{} }

// Keeps reports whether the field at path is wanted, or something of it.
func (f Fields) Keeps(path string) bool {
	s, kept := f.selection(), true
	for name := range strings.SplitSeq(path, ".") {
		if s, kept = s.field(name); !kept {
			return false
		}
	}
	return true
}

// KeepsAll reports whether the field at path is wanted, and all that is below it.
func (f Fields) KeepsAll(path string) bool {
	within := func(path, other string) bool { return path == other || strings.HasPrefix(path, other+".") }
	switch f.mode {
	case fieldsOnly:
		return slices.ContainsFunc(f.split(), func(p string) bool { return within(path, p) })
	case fieldsWithout:
		return !slices.ContainsFunc(f.split(), func(p string) bool { return within(path, p) || within(p, path) })
	}
	return true
}

// Whole reports whether an object with these fields may be written back: all are
// wanted, or all but the managed fields, which the server keeps.
func (f Fields) Whole() bool {
	return f.mode == fieldsUnsaid || f == Without() || f == WithoutManagedFields
}

// String is "all fields", "only spec.nodeName,status.phase" or "without
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

// split returns the paths.
func (f Fields) split() []string {
	if f.paths == "" {
		return nil
	}
	return strings.Split(f.paths, ",")
}
