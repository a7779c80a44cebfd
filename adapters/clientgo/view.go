package clientgo

import (
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// ViewOf returns a view of an informer created by this package, for tools such as package debug. It
// returns false for other informers.
func ViewOf(informer cache.SharedIndexInformer) (sharedinformer.View, bool) {
	c, ok := informer.GetController().(controller) // the informer itself may be wrapped
	if !ok {
		return nil, false
	}
	return view{c.informer}, true
}

// view is a view of an informer that works even before the informer runs.
type view struct{ of *informer }

// Name implements sharedinformer.View.
func (v view) Name() string { return v.Status().Reflector.Resource }

// Status implements sharedinformer.View.
func (v view) Status() sharedinformer.Status { return v.of.status() }

// Heads implements sharedinformer.View. Before the informer runs, it yields nothing, even if the informer's
// store has been written to.
func (v view) Heads() indexer.Reader[object.Head] {
	if i := v.of.inner(); i != nil {
		return i.Heads()
	}
	return indexer.New().Reader()
}

// Object implements sharedinformer.View.
func (v view) Object(head object.Head) (object.Object, error) {
	return opened(v.of.inner().Open(head)) // the head came from Heads
}
