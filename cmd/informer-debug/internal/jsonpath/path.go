package jsonpath

import "strings"

// Path is a place in an object, or several. It is safe for concurrent use.
type Path struct {
	text  string
	whole bool // it begins at the root, wherever one is
	steps []step
}

// ParsePath reads a place, with or without braces around it, and with or without the first
// dot, as --sort-by and custom columns have it.
func ParsePath(text string) (Path, error) {
	p := parser{text: text}
	p.spaces()
	braced := p.take("{")
	place, err := p.path(true)
	switch {
	case err != nil:
	case braced && !p.take("}"):
		err = p.fault("the brace is not closed")
	case strings.TrimSpace(p.rest()) != "":
		err = p.fault("only one place is wanted, such as {.status.phase}")
	case len(place.steps) == 0:
		err = p.fault("it names nothing: want for example {.status.phase}")
	}
	place.text = text
	return place, p.about(err)
}

// String is the place as it was read.
func (p Path) String() string { return p.text }

// Find returns the values at the place, none where there is no such place. It fails only
// where the search takes too long.
func (p Path) Find(tree any) ([]any, error) {
	w := walk{root: tree}
	return w.find(&p, tree)
}

// step leads from values to values. One of its members is set.
type step struct {
	name    *string // a member of that name
	item    *int    // the item at an index, from the end where it is negative
	slice   *slice  // some items
	all     bool    // all items or members
	descend bool    // the value itself and all below
	where   *filter // the items of which it is so
	union   []step  // what each of these leads to
	path    *Path   // in a union: a name with dots that is no member's
}

// slice is [start:end:step]. What is nil is not given.
type slice struct{ start, end, step *int }

// of returns the indexes of a list.
func (s *slice) of(length int) (start, end, step int) {
	at := func(n *int, otherwise int) int {
		if n == nil {
			return otherwise
		}
		if *n < 0 {
			return max(0, length+*n)
		}
		return min(*n, length)
	}
	if step = 1; s.step != nil {
		step = min(*s.step, length+1) // more cannot be told from that, and could overflow
	}
	return at(s.start, 0), at(s.end, length), step
}

// filter compares two operands, or with no operator asks whether there is a value.
type filter struct {
	left, right operand
	operator    string
}

// operand is a place or a value.
type operand struct {
	path  *Path // nil for a value
	value any
}
