package indexer

import "github.com/millrace-dev/millrace/object"

// Opener is what a cache holds in the place of an object: its head, and a way to the
// object itself, such as a wire.Packed. Open may fail. It may be called from any
// goroutine, and under the locks of the cache.
type Opener interface {
	object.Head
	Open() (object.Object, error)
}

// opened opens an entry, which is an Opener.
func opened(o object.Head) (object.Head, bool) {
	opened, err := o.(Opener).Open()
	return opened, err == nil
}

// unopened is why an object could not be opened for an index.
type unopened struct{ error }
