package clientgo

import (
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// ViewOf returns what can be seen of an informer made by this package, such as for package
// debug. It returns false for others.
func ViewOf(informer cache.SharedIndexInformer) (sharedinformer.View, bool) {
	c, ok := informer.GetController().(controller) // the informer itself may be wrapped
	if !ok {
		return nil, false
	}
	return view{c.informer}, true
}

// view is an informer before it runs, too.
type view struct{ of *informer }

// Name implements sharedinformer.View.
func (v view) Name() string { return v.Status().Reflector.Resource }

// Status implements sharedinformer.View.
func (v view) Status() sharedinformer.Status { return v.of.status() }

// Heads implements sharedinformer.View. Before the informer runs there are none: what its
// store has been given by others is not what it has read.
func (v view) Heads() indexer.Reader[object.Head] {
	if i := v.of.inner(); i != nil {
		return i.Heads()
	}
	return indexer.New().Reader()
}

// Object implements sharedinformer.View.
func (v view) Object(head object.Head) (object.Object, error) {
	return opened(v.of.inner().Open(head)) // Heads has given the head
}
