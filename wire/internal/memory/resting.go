package memory

import "weak"

// Resting holds something useful while there is work, such as a large buffer. In
// between it holds it weakly: if no work comes until the next garbage collection,
// it is gone. The zero value holds nothing.
type Resting[V any] struct {
	used *V
	rest weak.Pointer[V]
}

// Take returns what is held, or nil.
func (r *Resting[V]) Take() *V {
	if r.used == nil {
		r.used = r.rest.Value()
	}
	return r.used
}

// Hold replaces what is held.
func (r *Resting[V]) Hold(v *V) *V {
	r.used, r.rest = v, weak.Make(v)
	return v
}

// Pause is called when there is no work for now.
func (r *Resting[V]) Pause() { r.used = nil }
