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

// lister reads a resource for an informer. It is the source of its Resource.
type lister struct {
	resource
	packed    decoders               // of packed objects; nil for the objects themselves
	known     wire.Known             // nil where every object is decoded
	wanted    func(object.Head) bool // nil where every object is wanted
	selection source.Selection
}

// In implements source.Namespacer; it does not fail.
func (r *lister) In(namespace string) (source.ListerWatcher, error) {
	in := *r
	in.namespace = namespace
	return &in, nil
}

// Reusing implements source.Reuser.
func (r *lister) Reusing(known wire.Known) source.ListerWatcher {
	reusing := *r
	reusing.known = known
	return &reusing
}

// Choosing implements source.Chooser. The refused objects are not decoded.
func (r *lister) Choosing(wanted func(object.Head) bool) source.ListerWatcher {
	choosing := *r
	choosing.wanted = source.Both(choosing.wanted, wanted)
	return &choosing
}

// Selecting implements source.Selector. A server, or a proxy, that refuses the selector is
// asked again without it.
func (r *lister) Selecting(s source.Selection) source.ListerWatcher {
	selecting := *r
	selecting.selection = s
	return &selecting
}

// Packing implements source.Packer. Lists and watches pack objects straight from the server's
// bytes.
func (r *lister) Packing(p *wire.Packer) source.Namespacer {
	packing := *r
	packing.known = nil
	if r.codec != nil {
		opts := r.codec.opts
		packing.packed = newDecoders(func(media string) (wire.Decoder, error) { return p.Decoder(media, opts) })
	}
	return &packing
}

// SharedParts implements source.Sharer.
func (r *lister) SharedParts() *wire.Pool {
	if r.codec == nil {
		return nil
	}
	return r.codec.opts.Pool
}

// Altered implements source.Limited.
func (r *lister) Altered() bool { return false }

// Reaches implements source.Limited; see Resource.Namespace.
func (r *lister) Reaches(namespace string) bool {
	return r.namespace == "" || namespace == "" || r.namespace == namespace
}

// decoder returns the decoder for the body of an answer.
func (r *lister) decoder(resp *http.Response) (wire.Decoder, error) {
	from := r.packed
	if from == nil {
		from = r.codec.decoders
	}
	decoder, err := from.of(r.client, resp)
	if err != nil || r.wanted == nil {
		return decoder, err
	}
	return decoder.Choosing(r.wanted), nil
}

// List implements source.ListerWatcher; see Resource.List.
func (r *lister) List(ctx context.Context, opts metav1.ListOptions) source.List[object.Head] {
	l := &pageReader{lister: r, opts: opts, meta: new(metav1.ListMeta)}
	return source.List[object.Head]{Meta: l.meta, Items: func(yield func(object.Head, error) bool) {
		if err := l.run(ctx, yield); err != nil {
			yield(nil, err)
		}
	}}
}

// maxEmptyPages is how many pages without an item a list may have in a row. A
// selector may leave some empty; a server that always promises more is broken.
const maxEmptyPages = 1000

// pageReader is a list that is being read, page by page.
type pageReader struct {
	*lister
	opts  metav1.ListOptions // of the next page
	meta  *metav1.ListMeta
	begun bool
	pages int
	empty int    // pages without an item, in a row
	token string // that led to some earlier page
}

// run reads all pages. It returns nil when the consumer has stopped it, too.
func (l *pageReader) run(ctx context.Context, yield func(object.Head, error) bool) error {
	if l.begun {
		return fmt.Errorf("list %s: a list can be read only once: list again", l.lister)
	}
	l.begun = true
	if err := validateList(l.opts); err != nil {
		return fmt.Errorf("list %s: %w", l.lister, err)
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
			return fmt.Errorf("list %s: %d pages in a row held nothing, and the server promises more", l.lister, l.empty)
		}
		if page.Continue == l.opts.Continue {
			return fmt.Errorf("list %s: page %d leads to itself: the server gave the continue token that it was asked with", l.lister, l.pages)
		}
		if page.Continue == l.token {
			return fmt.Errorf("list %s: page %d leads back to an earlier one: the server gave a continue token again", l.lister, l.pages)
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
func (l *pageReader) page(ctx context.Context, meta *metav1.ListMeta, yield func(object.Head, error) bool) (bool, error) {
	values, err := query(&l.opts)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", l.lister, err)
	}
	r := *l.lister
	req, resp, selecting, err := r.ask(ctx, call{verb: "list", method: http.MethodGet, query: values, list: true, repeat: once, stream: true})
	if err != nil {
		return false, err
	}
	if !selecting && r.selection.Selector != "" {
		plain := r
		plain.selection = source.Selection{}
		l.lister = &plain // for what follows, too
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
