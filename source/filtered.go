package source

import (
	"context"
	"iter"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Filtered returns the source without the objects that wanted refuses, for good; see Request.Wanted.
// It has no Origin, since nobody can tell it from the whole in another process.
func Filtered(from ListerWatcher, wanted func(object.Head) bool) ListerWatcher {
	return &filtered{Complete(from), wanted}
}

type filtered struct {
	ListerWatcher
	wanted func(object.Head) bool
}

// Describe describes the source.
func (f *filtered) Describe() Description {
	d := Describe(f.ListerWatcher)
	d.Origin = nil
	return d
}

// List lists the source.
func (f *filtered) List(ctx context.Context, req Request) List[object.Head] {
	return f.ListerWatcher.List(ctx, f.filter(req))
}

// Watch watches the source.
func (f *filtered) Watch(ctx context.Context, req Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return f.ListerWatcher.Watch(ctx, f.filter(req))
}

// filter has a request leave out what is not wanted here, besides what its caller refuses.
func (f *filtered) filter(req Request) Request {
	wanted := req.Wanted
	req.Wanted = func(o object.Head) bool { return f.wanted(o) && (wanted == nil || wanted(o)) }
	return req
}
