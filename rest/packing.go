package rest

import (
	"context"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Packing implements source.Packer: lists and watches bring objects that are packed by p,
// straight from what the server sent.
func (r *Resource[T]) Packing(p *wire.Packer[T]) source.Namespacer[*wire.Packed[T]] {
	as := &packing[T]{reading[T, *wire.Packed[T]]{Resource: r, wanted: r.wanted, selection: r.selection}}
	if r.codec != nil {
		opts := r.codec.opts
		as.decoders = newDecoders(func(media string) (wire.Decoder[*wire.Packed[T]], error) { return p.Decoder(media, opts) })
	}
	return as
}

// packing is a resource whose objects are packed. Like the resource it names itself, and
// says what its objects are.
type packing[T object.Object] struct {
	reading[T, *wire.Packed[T]]
}

// List implements source.ListerWatcher; see Resource.List.
func (p *packing[T]) List(ctx context.Context, opts metav1.ListOptions) source.List[*wire.Packed[T]] {
	return p.list(ctx, opts)
}

// Watch implements source.ListerWatcher; see Resource.Watch.
func (p *packing[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[*wire.Packed[T]], error], error) {
	return p.watch(ctx, opts)
}

// Reusing implements source.Reuser.
func (p *packing[T]) Reusing(known wire.Known[*wire.Packed[T]]) source.ListerWatcher[*wire.Packed[T]] {
	reusing := *p
	reusing.known = known
	return &reusing
}

// Choosing implements source.Chooser.
func (p *packing[T]) Choosing(wanted func(object.Head) bool) source.ListerWatcher[*wire.Packed[T]] {
	choosing := *p
	choosing.wanted = source.Both(choosing.wanted, wanted)
	return &choosing
}

// Selecting implements source.Selector; see Resource.Selecting.
func (p *packing[T]) Selecting(s source.Selection) source.ListerWatcher[*wire.Packed[T]] {
	selecting := *p
	selecting.selection = s
	return &selecting
}

// In implements source.Namespacer; it does not fail.
func (p *packing[T]) In(namespace string) (source.ListerWatcher[*wire.Packed[T]], error) {
	in := *p
	in.Resource = p.Namespace(namespace)
	return &in, nil
}
