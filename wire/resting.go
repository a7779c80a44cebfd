package wire

import "weak"

// resting holds what is of use while there is work, such as a large buffer. It
// is kept while in use, and between times no more than weakly: the next garbage
// collection takes it, however long the wait for more work. The zero value holds
// nothing.
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

// pause lets go of what is held unless work comes soon.
func (r *resting[V]) pause() { r.used = nil }
