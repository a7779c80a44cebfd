package json

import (
	"hash/maphash"

	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/selection"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// path remembers what the decoder has learned about one position in untyped objects, such as
// "metadata.labels": which fields occur there, in which order, and whether it pays to share values. Objects
// of the same kind have nearly the same fields, so the decoder usually knows the next name before reading
// it.
type path struct {
	name     string          // the field's name; shared by all objects that have the field
	wanted   *selection.Tree // selection of the value; nil for all
	dropped  bool            // no part of the value is wanted
	catchAll bool            // represents all unknown positions with the same selection

	share    *share.Site      // position within the decoder; nil if nothing is shared
	fields   map[string]*path // an object's fields at this position
	elem     *path            // an array's elements at this position
	first    *path            // the first field here last time
	next     *path            // the field that followed this one last time
	lastText uint32           // the mark of the last text here
}

// paths holds everything that a decoder has learned. Its size is limited: names seen only once are not
// recorded, and once there are maxPaths positions, the decoder starts over with the next object.
type paths struct {
	wanted    *selection.Tree
	root      *path                     // an object
	embedded  *path                     // a value within a typed object
	catchAlls map[*selection.Tree]*path // keyed by the selection at a position
	dropped   *path                     // the catch-all for unwanted positions
	pathCount int                       // number of places
	texts     memory.WeakTable[*string] // text that occurred twice in a row, indexed by place
	objects   int
	seed      maphash.Seed
	seen      [][2]uint32 // marks of names seen, from the second object on
}

const (
	maxPaths    = 4096
	maxPathName = 64   // bytes
	seenNames   = 1024 // slots of two marks each, 8 KB
)

// newPaths returns the paths for objects with the wanted fields.
func newPaths(wanted *selection.Tree) paths {
	s := paths{wanted: wanted, seed: maphash.MakeSeed(), dropped: &path{catchAll: true, dropped: true}}
	s.forget()
	return s
}

func (s *paths) forget() {
	s.pathCount, s.texts = 0, memory.WeakTable[*string]{}
	s.catchAlls = make(map[*selection.Tree]*path)
	s.embedded = s.newPath("", nil)
	// An object and its metadata are never shared: they are unique to the object, and completing the object
	// writes to them.
	metadata, _ := s.wanted.Field("metadata")
	s.root = &path{wanted: s.wanted, fields: map[string]*path{"metadata": {name: "metadata", wanted: metadata}}}
}

// catchAll returns the path for all unknown positions with this selection.
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

// newPath adds a position and returns its path.
func (s *paths) newPath(name string, wanted *selection.Tree) *path {
	catchAll := s.catchAll(wanted)
	s.pathCount++
	return &path{name: name, wanted: wanted, share: catchAll.share.WithNumber(s.pathCount)}
}

// element returns the path of an array's elements at a position.
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

// field returns a field's path.
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

// catchAllField returns the path of a field at an unknown position.
func (s *paths) catchAllField(wanted *selection.Tree, kept bool) *path {
	if !kept {
		return s.dropped
	}
	return s.catchAll(wanted)
}

// repeats records a name and reports whether it has been seen before. Names in the first object are not
// recorded, because it may be the only one.
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

// maxRepeatedText is the maximum length in bytes of the text remembered for a position.
const maxRepeatedText = 64

// repeatedText returns a string equal to text if that text repeats at this position, and nil
// otherwise. The string has its own memory.
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
