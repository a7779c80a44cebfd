package memory

// Recall is what a run remembers about each place but must not keep alive: texts
// that objects have in common. It is held while an object is decoded, and rests
// between objects. Objects hold the texts they use (W03).
type Recall[V any] struct {
	table []V // by place; nil between two objects
	held  Resting[[]V]
}

// At returns what is remembered of a place. It is valid until the next call.
func (r *Recall[V]) At(place int) *V {
	if place < len(r.table) {
		return &r.table[place]
	}
	return r.reach(place)
}

// reach is At when there is no table, or none that has the place.
func (r *Recall[V]) reach(place int) *V {
	held := r.held.Take()
	if held == nil {
		held = r.held.Hold(new([]V))
	}
	if r.table = *held; place >= len(r.table) {
		r.table = append(r.table, make([]V, place+1-len(r.table))...)
		*held = r.table
	}
	return &r.table[place]
}

// Pause is called when an object is done.
func (r *Recall[V]) Pause() {
	r.table = nil
	r.held.Pause()
}
