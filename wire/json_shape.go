package wire

import "hash/maphash"

// shape is what a run has learned of one place in the objects without a Go type
// that it decodes, such as "metadata.labels": which fields come there and in
// which order, and whether sharing pays. Objects of one kind are of nearly the
// same shape, so that the next name is known, mostly, before it is read.
type shape struct {
	name   string            // of the field; shared by all objects that have it
	share  *site             // within the run; nil where nothing is shared
	fields map[string]*shape // those of an object here
	each   *shape            // the elements of an array here
	first  *shape            // the field that came first here, the last time
	after  *shape            // the one that came after this one
	text   *string           // a text that was here twice in a row
	last   uint32            // the mark of the one that was here the last time
}

// shapes are all that one run has learned. What is learned is bounded: names
// that are met once are not, and when there are too many, all are forgotten.
type shapes struct {
	root    *shape // an object
	inner   *shape // a value within a typed object
	stray   *shape // every place that is not known
	unit    *unit
	known   int // how many places
	objects int
	seed    maphash.Seed
	seen    [][2]uint32 // marks of names that were met; from the second object on
}

const (
	maxShapes    = 4096
	maxShapeName = 64   // bytes
	seenNames    = 1024 // places for two marks each, 8 KB
)

func newShapes() shapes {
	s := shapes{seed: maphash.MakeSeed(), unit: siteOf(jsonPart{op: jsonAny}).unit}
	s.forget()
	return s
}

func (s *shapes) forget() {
	s.known = 0
	s.stray = s.place("")
	s.inner = s.place("")
	// An object and its metadata are its own: no other has the same, and
	// whoever completes an object may write to them.
	s.root = &shape{fields: map[string]*shape{"metadata": {name: "metadata"}}}
}

func (s *shapes) place(name string) *shape {
	s.known++
	return &shape{name: name, share: &site{unit: s.unit, number: s.known}}
}

// element returns the shape of the elements of an array at a place.
func (s *shapes) element(at *shape) *shape {
	switch {
	case at == s.stray:
		return at
	case at.each == nil:
		at.each = s.place("")
	}
	return at.each
}

// field returns the shape of a field, or nil where it is not known.
func (s *shapes) field(at *shape, name []byte) *shape {
	if known := at.fields[string(name)]; known != nil {
		return known
	}
	if !s.repeats(name) || at == s.stray {
		return nil
	}
	if at.fields == nil {
		at.fields = make(map[string]*shape)
	}
	known := s.place(string(name))
	at.fields[known.name] = known
	return known
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

// habit returns a string like text where that is what comes here again and
// again, or nil. It has memory of its own.
func (s *shapes) habit(at *shape, text []byte) *string {
	if at.text != nil && *at.text == string(text) {
		return at.text
	}
	if at == s.stray || len(text) > longestHabit {
		return nil
	}
	mark := uint32(maphash.Bytes(s.seed, text))
	if at.last != mark {
		at.last = mark
		return nil
	}
	own := string(text)
	at.text = &own
	return at.text
}
