package rest

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire"
)

// Watch opens a watch and returns when the server has accepted it. It sets
// opts.Watch; opts.TimeoutSeconds says how long the watch may last. Options that
// contradict each other are an error. Watch does not try again: its caller has a
// back-off and should see each failure. source.RetryAfter tells how long the server
// asked to wait.
//
// The iteration can be ranged over once. It ends without an error when the server
// ends the watch between two events, as servers do every few minutes. It ends with
// the server's *errors.StatusError after an ERROR event, with a *wire.Error at a
// frame that cannot be decoded, and with the cause of ctx when ctx is done. The
// connection is closed when the iteration ends, breaks or panics, or when ctx is
// done; an iteration that never begins holds its connection until then.
func (r *Resource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[T], error], error) {
	return r.whole().watch(ctx, opts)
}

func (r reading[T, H]) watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[H], error], error) {
	opts.Watch = true
	if err := validateWatch(opts); err != nil {
		return nil, fmt.Errorf("watch %s: %w", r, err)
	}
	values, err := query(&opts)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r, err)
	}
	req, resp, _, err := r.ask(ctx, call[T]{verb: "watch", method: http.MethodGet, query: values, repeat: once, stream: true})
	if err != nil {
		return nil, err
	}
	decoder, err := r.decoder(resp)
	if err != nil {
		resp.Body.Close()
		return nil, req.wrap(err)
	}
	return func(yield func(wire.Event[H], error) bool) {
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
