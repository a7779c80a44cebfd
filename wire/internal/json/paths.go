package json

import (
	"hash/maphash"

	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/selection"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// path is what a decoder has learned about one place in objects without a Go type,
// such as "metadata.labels": which fields come there, in which order, and whether
// sharing pays. Objects of one kind have nearly the same fields, so the next name is
// usually known before it is read.
type path struct {
	name     string          // of the field; shared by all objects that have it
	wanted   *selection.Tree // of the value; nil for all of it
	dropped  bool            // nothing of the value is wanted
	catchAll bool            // stands for all unknown places with the same selection

	share    *share.Site      // within the decoder; nil if nothing is shared
	fields   map[string]*path // those of an object here
	elem     *path            // the elements of an array here
	first    *path            // the field that came first here, the last time
	next     *path            // the one that came after this one
	lastText uint32           // the mark of the text that was here the last time
}

// paths are all that one decoder has learned. Their number is bounded: names that are met once are
// not learned, and after maxPaths places the next object starts from nothing.
type paths struct {
	wanted    *selection.Tree
	root      *path                     // an object
	embedded  *path                     // a value within a typed object
	catchAlls map[*selection.Tree]*path // by the selection of a place
	dropped   *path                     // the catch-all of places that are not wanted
	pathCount int                       // how many places
	texts     memory.WeakTable[*string] // by the number of a place, a text that was there twice in a row
	objects   int
	seed      maphash.Seed
	seen      [][2]uint32 // marks of names that were met; from the second object on
}

const (
	maxPaths    = 4096
	maxPathName = 64   // bytes
	seenNames   = 1024 // places for two marks each, 8 KB
)

// newPaths returns the paths of objects with the wanted fields.
func newPaths(wanted *selection.Tree) paths {
	s := paths{wanted: wanted, seed: maphash.MakeSeed(), dropped: &path{catchAll: true, dropped: true}}
	s.forget()
	return s
}

func (s *paths) forget() {
	s.pathCount, s.texts = 0, memory.WeakTable[*string]{}
	s.catchAlls = make(map[*selection.Tree]*path)
	s.embedded = s.newPath("", nil)
	// An object and its metadata are never shared: no other object has the same,
	// and completing an object writes to them.
	metadata, _ := s.wanted.Field("metadata")
	s.root = &path{wanted: s.wanted, fields: map[string]*path{"metadata": {name: "metadata", wanted: metadata}}}
}

// catchAll returns the path for all unknown places with this selection.
func (s *paths) catchAll(wanted *selection.Tree) *path {
	at := s.catchAlls[wanted]
	if at == nil {
		s.pathCount++
		part := share.SiteOf(partName{op: opAny, wanted: wanted.Key()})
		at = &path{wanted: wanted, catchAll: true, share: part.WithNumber(s.pathCount)}
		s.catchAlls[wanted] = at
	}
	return at
}

// newPath returns the path of a place that is known from now on.
func (s *paths) newPath(name string, wanted *selection.Tree) *path {
	catchAll := s.catchAll(wanted)
	s.pathCount++
	return &path{name: name, wanted: wanted, share: catchAll.share.WithNumber(s.pathCount)}
}

// element returns the path of the elements of an array at a place.
func (s *paths) element(at *path) *path {
	switch {
	case at.catchAll:
		return at
	case at.elem == nil && s.pathCount >= maxPaths:
		return s.catchAll(at.wanted)
	case at.elem == nil:
		at.elem = s.newPath("", at.wanted)
	}
	return at.elem
}

// field returns the path of a field.
func (s *paths) field(at *path, name []byte) *path {
	if known := at.fields[string(name)]; known != nil {
		return known
	}
	wanted, kept := at.wanted.Field(string(name))
	switch {
	case at.catchAll || s.pathCount >= maxPaths || !s.repeats(name):
		return s.catchAllField(wanted, kept)
	case at.fields == nil:
		at.fields = make(map[string]*path)
	}
	known := s.newPath(string(name), wanted)
	known.dropped = !kept
	at.fields[known.name] = known
	return known
}

// catchAllField returns the path of a field whose place is not known.
func (s *paths) catchAllField(wanted *selection.Tree, kept bool) *path {
	if !kept {
		return s.dropped
	}
	return s.catchAll(wanted)
}

// repeats reports whether a name was met before, and notes that it was met now.
// Nothing is noted of the first object: it may be the only one.
func (s *paths) repeats(name []byte) bool {
	if s.objects == 1 || len(name) > maxPathName {
		return false
	}
	if s.seen == nil {
		s.seen = make([][2]uint32, seenNames)
	}
	hash := maphash.Bytes(s.seed, name)
	mark := uint32(hash>>32) | 1
	seen := &s.seen[hash%seenNames]
	if seen[0] == mark || seen[1] == mark {
		return true
	}
	seen[1], seen[0] = seen[0], mark
	return false
}

// maxRepeatedText is the longest text, in bytes, that a place learns.
const maxRepeatedText = 64

// repeatedText returns a string equal to text if that text comes here again and again,
// else nil. The string has its own memory.
func (s *paths) repeatedText(at *path, text []byte) *string {
	if at.catchAll || at.share == nil || len(text) > maxRepeatedText {
		return nil
	}
	usual := s.texts.At(at.share.Number)
	if *usual != nil && **usual == string(text) {
		return *usual
	}
	mark := uint32(maphash.Bytes(s.seed, text))
	if at.lastText != mark {
		at.lastText = mark
		return nil
	}
	own := string(text)
	*usual = &own
	return *usual
}
