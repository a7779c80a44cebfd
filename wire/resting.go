package wire

import "weak"

// resting holds something useful while there is work, such as a large buffer. In
// between it holds it weakly: if no work comes until the next garbage collection,
// it is gone. The zero value holds nothing.
type resting[V any] struct {
	used *V
	rest weak.Pointer[V]
}

// take returns what is held, or nil.
func (r *resting[V]) take() *V {
	if r.used == nil {
		r.used = r.rest.Value()
	}
	return r.used
}

// hold replaces what is held.
func (r *resting[V]) hold(v *V) *V {
	r.used, r.rest = v, weak.Make(v)
	return v
}

// pause is called when there is no work for now.
func (r *resting[V]) pause() { r.used = nil }
