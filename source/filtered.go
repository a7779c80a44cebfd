package source

import (
	"context"
	"iter"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Filtered returns a source that permanently omits the objects rejected by wanted; see
// Request.Wanted. It has no Origin, because another process could not distinguish it from the
// unfiltered source.
func Filtered(from ListerWatcher, wanted func(object.Head) bool) ListerWatcher {
	return &filtered{Complete(from), wanted}
}

type filtered struct {
	ListerWatcher
	wanted func(object.Head) bool
}

// Describe returns the source's description, without Origin.
func (f *filtered) Describe() Description {
	d := Describe(f.ListerWatcher)
	d.Origin, d.Omits = nil, true
	return d
}

func (f *filtered) List(ctx context.Context, req Request) List[object.Head] {
	return f.ListerWatcher.List(ctx, f.filter(req))
}

func (f *filtered) Watch(ctx context.Context, req Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return f.ListerWatcher.Watch(ctx, f.filter(req))
}

// filter combines a request's filter with f's own.
func (f *filtered) filter(req Request) Request {
	if req.VersionOnly {
		return req // the first page has the version
	}
	wanted := req.Wanted
	req.Wanted = func(o object.Head) bool {
		if !f.wanted(o) {
			if req.Skipped != nil {
				req.Skipped()
			}
			return false
		}
		return wanted == nil || wanted(o)
	}
	return req
}
