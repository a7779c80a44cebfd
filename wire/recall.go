package wire

// recall is what a run remembers about each place but must not keep alive: texts
// that objects have in common. It is held while an object is decoded, and rests
// between objects. Objects hold the texts they use (W03).
type recall[V any] struct {
	table []V // by place; nil between two objects
	held  resting[[]V]
}

// at returns what is remembered of a place. It is valid until the next call.
func (r *recall[V]) at(place int) *V {
	if place < len(r.table) {
		return &r.table[place]
	}
	return r.reach(place)
}

// reach is at when there is no table, or none that has the place.
func (r *recall[V]) reach(place int) *V {
	held := r.held.take()
	if held == nil {
		held = r.held.hold(new([]V))
	}
	if r.table = *held; place >= len(r.table) {
		r.table = append(r.table, make([]V, place+1-len(r.table))...)
		*held = r.table
	}
	return &r.table[place]
}

// pause is called when an object is done.
func (r *recall[V]) pause() {
	r.table = nil
	r.held.pause()
}
