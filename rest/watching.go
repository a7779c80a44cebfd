package rest

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Watch implements source.ListerWatcher; see Resource.Watch.
func (r *lister) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	opts.Watch = true
	if err := validateWatch(opts); err != nil {
		return nil, fmt.Errorf("watch %s: %w", r, err)
	}
	values, err := query(&opts)
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
		for ev, err := range decoder.Watch(resp.Body, r.known) {
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
