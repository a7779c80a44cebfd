package wire

import "weak"

// recall is what a run remembers of each place and must not keep alive: texts
// that objects have in common. It is held while an object is being decoded, and
// between two objects no more than weakly: the next garbage collection takes it
// all, however long the run waits for another object. What objects use they hold
// themselves (W03).
type recall[V any] struct {
	table []V // by place; nil between two objects
	rest  weak.Pointer[[]V]
	held  *[]V // what rest points to, while there is a table
}

// at returns what is remembered of a place. It is valid until the next call.
func (r *recall[V]) at(place int) *V {
	if place < len(r.table) {
		return &r.table[place]
	}
	return r.reach(place)
}

// reach is at for a place that the table does not have, or for want of a table.
func (r *recall[V]) reach(place int) *V {
	if r.held == nil {
		if r.held = r.rest.Value(); r.held == nil {
			r.held = new([]V)
			r.rest = weak.Make(r.held)
		}
		r.table = *r.held
	}
	if place >= len(r.table) {
		r.table = append(r.table, make([]V, place+1-len(r.table))...)
		*r.held = r.table
	}
	return &r.table[place]
}

// pause is called when an object is done.
func (r *recall[V]) pause() { r.table, r.held = nil, nil }
