package rest

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Watch implements source.ListerWatcher; see Resource.Watch.
func (l *lister) Watch(ctx context.Context, want source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	r := l.reading(want)
	r.ListOptions.Watch = true
	if err := validateWatch(r.ListOptions); err != nil {
		return nil, fmt.Errorf("watch %s: %w", r, err)
	}
	values, err := query(&r.ListOptions)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r, err)
	}
	req, resp, _, err := r.ask(ctx, call{verb: "watch", method: http.MethodGet, query: values, repeat: once, stream: true})
	if err != nil {
		return nil, err
	}
	decoder, err := r.decoder(resp)
	if err != nil {
		resp.Body.Close()
		return nil, req.wrap(err)
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		defer resp.Body.Close()
		for ev, err := range decoder.Watch(resp.Body, r.Known) {
			if err != nil {
				yield(ev, req.wrap(r.client.concealed(resp, withCause(ctx, err))))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}, nil
}
