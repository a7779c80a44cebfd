package json

import (
	"hash/maphash"

	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/selection"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// shape is what a run has learned about one place in objects without a Go type,
// such as "metadata.labels": which fields come there, in which order, and whether
// sharing pays. Objects of one kind have nearly the same shape, so the next name is
// usually known before it is read.
type shape struct {
	name    string          // of the field; shared by all objects that have it
	wanted  *selection.Tree // of the value; nil for all of it
	dropped bool            // nothing of the value is wanted
	stray   bool            // stands for all unknown places with the same selection

	share  *share.Site       // within the run; nil where nothing is shared
	fields map[string]*shape // those of an object here
	each   *shape            // the elements of an array here
	first  *shape            // the field that came first here, the last time
	after  *shape            // the one that came after this one
	last   uint32            // the mark of the text that was here the last time
}

// shapes are all that one run has learned. What is learned is bounded: names
// that are met once are not learned, nor are more places than maxShapes, and
// then the next object begins anew.
type shapes struct {
	wanted  *selection.Tree
	root    *shape                     // an object
	inner   *shape                     // a value within a typed object
	strays  map[*selection.Tree]*shape // by what is wanted of a place
	dropped *shape                     // the stray one
	known   int                        // how many places
	texts   memory.WeakTable[*string]  // by the number of a place, a text that was there twice in a row
	objects int
	seed    maphash.Seed
	seen    [][2]uint32 // marks of names that were met; from the second object on
}

const (
	maxShapes    = 4096
	maxShapeName = 64   // bytes
	seenNames    = 1024 // places for two marks each, 8 KB
)

// newShapes returns the shapes of objects with the wanted fields.
func newShapes(wanted *selection.Tree) shapes {
	s := shapes{wanted: wanted, seed: maphash.MakeSeed(), dropped: &shape{stray: true, dropped: true}}
	s.forget()
	return s
}

func (s *shapes) forget() {
	s.known, s.texts = 0, memory.WeakTable[*string]{}
	s.strays = make(map[*selection.Tree]*shape)
	s.inner = s.place("", nil)
	// An object and its metadata are never shared: no other object has the same,
	// and completing an object writes to them.
	metadata, _ := s.wanted.Field("metadata")
	s.root = &shape{wanted: s.wanted, fields: map[string]*shape{"metadata": {name: "metadata", wanted: metadata}}}
}

// stray returns the shape of all unknown places with this selection.
func (s *shapes) stray(wanted *selection.Tree) *shape {
	at := s.strays[wanted]
	if at == nil {
		s.known++
		part := share.SiteOf(partName{op: opAny, wanted: wanted.Key()})
		at = &shape{wanted: wanted, stray: true, share: part.WithNumber(s.known)}
		s.strays[wanted] = at
	}
	return at
}

// place returns the shape of a place that is known from now on.
func (s *shapes) place(name string, wanted *selection.Tree) *shape {
	stray := s.stray(wanted)
	s.known++
	return &shape{name: name, wanted: wanted, share: stray.share.WithNumber(s.known)}
}

// element returns the shape of the elements of an array at a place.
func (s *shapes) element(at *shape) *shape {
	switch {
	case at.stray:
		return at
	case at.each == nil && s.known >= maxShapes:
		return s.stray(at.wanted)
	case at.each == nil:
		at.each = s.place("", at.wanted)
	}
	return at.each
}

// field returns the shape of a field.
func (s *shapes) field(at *shape, name []byte) *shape {
	if known := at.fields[string(name)]; known != nil {
		return known
	}
	wanted, kept := at.wanted.Field(string(name))
	switch {
	case at.stray || s.known >= maxShapes || !s.repeats(name):
		return s.strayField(wanted, kept)
	case at.fields == nil:
		at.fields = make(map[string]*shape)
	}
	known := s.place(string(name), wanted)
	known.dropped = !kept
	at.fields[known.name] = known
	return known
}

// strayField returns the shape of a field whose place is not known.
func (s *shapes) strayField(wanted *selection.Tree, kept bool) *shape {
	if !kept {
		return s.dropped
	}
	return s.stray(wanted)
}

// repeats reports whether a name was met before, and notes that it was met now.
// Nothing is noted of the first object: it may be the only one.
func (s *shapes) repeats(name []byte) bool {
	if s.objects == 1 || len(name) > maxShapeName {
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

// longestHabit is the longest text, in bytes, that a place learns.
const longestHabit = 64

// habit returns a string equal to text if that text comes here again and again,
// else nil. The string has its own memory.
func (s *shapes) habit(at *shape, text []byte) *string {
	if at.stray || at.share == nil || len(text) > longestHabit {
		return nil
	}
	usual := s.texts.At(at.share.Number)
	if *usual != nil && **usual == string(text) {
		return *usual
	}
	mark := uint32(maphash.Bytes(s.seed, text))
	if at.last != mark {
		at.last = mark
		return nil
	}
	own := string(text)
	*usual = &own
	return *usual
}
