package source

import (
	"context"
	"iter"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Choosing returns the source without the objects that wanted refuses, for good; see Request.Wanted.
// It has no Origin, since nobody can tell it from the whole in another process.
func Choosing(from ListerWatcher, wanted func(object.Head) bool) ListerWatcher {
	return &choosing{Complete(from), wanted}
}

type choosing struct {
	ListerWatcher
	wanted func(object.Head) bool
}

// Describe describes the source.
func (c *choosing) Describe() Description {
	d := Describe(c.ListerWatcher)
	d.Origin = nil
	return d
}

// List lists the source.
func (c *choosing) List(ctx context.Context, req Request) List[object.Head] {
	return c.ListerWatcher.List(ctx, c.narrow(req))
}

// Watch watches the source.
func (c *choosing) Watch(ctx context.Context, req Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return c.ListerWatcher.Watch(ctx, c.narrow(req))
}

// narrow has a request leave out what is not wanted here, besides what its caller refuses.
func (c *choosing) narrow(req Request) Request {
	wanted := req.Wanted
	req.Wanted = func(o object.Head) bool { return c.wanted(o) && (wanted == nil || wanted(o)) }
	return req
}
