package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// List reads the objects of the resource one by one, as they arrive. At most one
// item that was not yielded is in memory. Nothing is sent until Items is ranged
// over. Options that contradict each other are an error.
//
// Pages, which the server returns if opts.Limit is set, are followed. If the
// continue token of a later page has expired, the server's 410
// (apierrors.IsResourceExpired) ends the iteration, and the caller should list
// anew. List does not try again: its caller has a back-off and should see each
// failure. source.RetryAfter tells how long the server asked to wait.
func (r *Resource[T]) List(ctx context.Context, opts metav1.ListOptions) source.List[T] {
	return r.whole().list(ctx, opts)
}

// reading is how the objects of a resource are read: as they are, or packed.
type reading[T object.Object, H object.Head] struct {
	*Resource[T]
	decoders decoders[H]
	known    wire.Known[H]          // nil where every object is new
	wanted   func(object.Head) bool // nil where every object is wanted

	selection source.Selection
}

// whole reads the objects as they are.
func (r *Resource[T]) whole() reading[T, T] {
	as := reading[T, T]{Resource: r, known: r.known, wanted: r.wanted, selection: r.selection}
	if r.codec != nil {
		as.decoders = r.codec.decoders
	}
	return as
}

// decoder returns the decoder for the body of an answer.
func (r reading[T, H]) decoder(resp *http.Response) (wire.Decoder[H], error) {
	decoder, err := r.decoders.of(r.client, resp)
	if err != nil || r.wanted == nil {
		return decoder, err
	}
	return decoder.Choosing(r.wanted), nil
}

func (r reading[T, H]) list(ctx context.Context, opts metav1.ListOptions) source.List[H] {
	l := &pageReader[T, H]{reading: r, opts: opts, meta: new(metav1.ListMeta)}
	return source.List[H]{Meta: l.meta, Items: func(yield func(H, error) bool) {
		if err := l.run(ctx, yield); err != nil {
			var none H
			yield(none, err)
		}
	}}
}

// maxEmptyPages is how many pages without an item a list may have in a row. A
// selector may leave some empty; a server that always promises more is broken.
const maxEmptyPages = 1000

// pageReader is a list that is being read, page by page.
type pageReader[T object.Object, H object.Head] struct {
	reading[T, H]
	opts  metav1.ListOptions // of the next page
	meta  *metav1.ListMeta
	begun bool
	pages int
	empty int    // pages without an item, in a row
	token string // that led to some earlier page
}

// run reads all pages. It returns nil when the consumer has stopped it, too.
func (l *pageReader[T, H]) run(ctx context.Context, yield func(H, error) bool) error {
	if l.begun {
		return fmt.Errorf("list %s: a list can be read only once: list again", l.Resource)
	}
	l.begun = true
	if err := validateList(l.opts); err != nil {
		return fmt.Errorf("list %s: %w", l.Resource, err)
	}
	for {
		var page metav1.ListMeta
		goOn, err := l.page(ctx, &page, yield)
		if err != nil || !goOn {
			return err
		}
		if l.pages++; l.pages == 1 {
			*l.meta = page
		}
		if page.Continue == "" {
			l.meta.Continue, l.meta.RemainingItemCount = "", nil
			return nil
		}
		if l.empty >= maxEmptyPages {
			return fmt.Errorf("list %s: %d pages in a row held nothing, and the server promises more", l.Resource, l.empty)
		}
		if page.Continue == l.opts.Continue {
			return fmt.Errorf("list %s: page %d leads to itself: the server gave the continue token that it was asked with", l.Resource, l.pages)
		}
		if page.Continue == l.token {
			return fmt.Errorf("list %s: page %d leads back to an earlier one: the server gave a continue token again", l.Resource, l.pages)
		}
		if l.pages&(l.pages-1) == 0 {
			l.token = page.Continue // at powers of two: a circle is found within three rounds
		}
		// The token stands for the resource version of the first page.
		l.opts.Continue = page.Continue
		l.opts.ResourceVersion, l.opts.ResourceVersionMatch = "", ""
	}
}

// page reads one page. It reports whether the consumer wants more.
func (l *pageReader[T, H]) page(ctx context.Context, meta *metav1.ListMeta, yield func(H, error) bool) (bool, error) {
	values, err := query(&l.opts)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", l.Resource, err)
	}
	r := l.reading
	req, resp, selecting, err := r.ask(ctx, call[T]{verb: "list", method: http.MethodGet, query: values, list: true, repeat: once, stream: true})
	if err != nil {
		return false, err
	}
	if !selecting {
		l.selection = source.Selection{} // for what follows, too
	}
	read := false
	defer func() {
		if read {
			finishBody(resp)
		} else {
			resp.Body.Close()
		}
	}()
	var some atomic.Bool // items that are not wanted are items
	if wanted := r.wanted; wanted != nil {
		r.wanted = func(o object.Head) bool {
			if !some.Load() {
				some.Store(true)
			}
			return wanted(o)
		}
	}
	decoder, err := r.decoder(resp)
	if err != nil {
		return false, req.wrap(err)
	}
	selected := source.NotSelected
	if selecting {
		decoder = decoder.Selected(func(string) { selected = source.SelectedByServer })
	}
	l.empty++
	for item, err := range decoder.List(resp.Body, meta, r.known) {
		if err != nil {
			return false, req.wrap(r.client.concealed(resp, withCause(ctx, err)))
		}
		l.empty = 0
		if !yield(item, nil) {
			return false, nil
		}
	}
	if some.Load() {
		l.empty = 0
	}
	if selecting {
		r.selection.Tell(selected)
	}
	read = true
	return true, nil
}

// withCause says why a context was cancelled, where that is what broke the
// reading: the error of the body alone does not always tell.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
