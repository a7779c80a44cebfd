package rest

import "github.com/millrace-dev/millrace/wire"

// Kept implements source.Limited; see Keep.
func (r *Resource[T]) Kept() wire.Fields {
	if r.codec == nil {
		return wire.Fields{}
	}
	return r.codec.opts.Keep
}

// Altered implements source.Limited.
func (r *Resource[T]) Altered() bool { return false }

// Reaches implements source.Limited; see Namespace.
func (r *Resource[T]) Reaches(namespace string) bool {
	return r.namespace == "" || namespace == "" || r.namespace == namespace
}
