package rest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// lister implements source.ListerWatcher for a Resource.
type lister struct{ resource }

// Describe implements source.ListerWatcher. The lister honors every field of a [source.Request] while
// decoding.
func (r *lister) Describe() source.Description {
	d := source.Description{
		Name: r.String(), Kind: r.kind, Namespace: r.namespace, Kept: r.kept(), Origin: r.origin,
		Narrows: true, Reuses: true, Filters: true, Packs: true,
	}
	if r.codec != nil {
		d.Pool = r.codec.opts.Pool
	}
	return d
}

// reading is a list or watch in progress.
type reading struct {
	resource
	source.Request
	decoders decoders
}

func (r *lister) reading(req source.Request) *reading {
	all := &reading{resource: r.resource, Request: req}
	if req.Namespace != "" {
		all.namespace = req.Namespace
	}
	if req.VersionOnly { // decode nothing
		all.Wanted = func(object.Head) bool {
			if req.Skipped != nil {
				req.Skipped()
			}
			return false
		}
	}
	if r.codec != nil {
		all.decoders = r.codec.decoders
		if packer := wire.PackerOf(req.Packer); packer != nil {
			all.decoders = newDecoders(func(media string) (wire.Decoder, error) { return packer.Decoder(media, &r.codec.opts) })
		}
	}
	return all
}

// decoder returns the decoder for a response body. The decoder skips objects that Wanted rejects.
func (r *reading) decoder(resp *http.Response) (wire.Decoder, error) {
	decoder, err := r.decoders.of(r.client, resp)
	if err != nil || r.Wanted == nil {
		return decoder, err
	}
	return decoder.WithFilter(r.Wanted), nil
}

// List implements source.ListerWatcher; see Resource.List.
func (r *lister) List(ctx context.Context, req source.Request) source.List[object.Head] {
	l := &pageReader{reading: r.reading(req), meta: new(metav1.ListMeta)}
	return source.List[object.Head]{Meta: l.meta, Items: func(yield func(object.Head, error) bool) {
		if err := l.run(ctx, yield); err != nil {
			yield(nil, err)
		}
	}}
}

// maxEmptyPages limits consecutive pages without items. With a selector, some pages may be empty, but a
// server that keeps promising more is broken.
const maxEmptyPages = 1000

// pageReader reads a list page by page.
type pageReader struct {
	*reading // parameters for the next page
	meta     *metav1.ListMeta
	begun    bool
	pages    int
	empty    int    // consecutive pages without items
	token    string // an earlier page's continue token, to detect cycles
}

// run reads all pages. It returns nil even if the consumer stopped the iteration.
func (l *pageReader) run(ctx context.Context, yield func(object.Head, error) bool) error {
	if l.begun {
		return fmt.Errorf("list %s: a list can be read only once: list again", l.reading)
	}
	l.begun = true
	if err := validateList(l.ListOptions); err != nil {
		return fmt.Errorf("list %s: %w", l.reading, err)
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
		if page.Continue == "" || l.VersionOnly {
			l.meta.Continue, l.meta.RemainingItemCount = "", nil
			return nil
		}
		if l.empty >= maxEmptyPages {
			return fmt.Errorf("list %s: %d consecutive pages were empty, and the server announces more", l.reading, l.empty)
		}
		if page.Continue == l.Continue {
			return fmt.Errorf("list %s: page %d leads to itself: the server returned the continue token that it received", l.reading, l.pages)
		}
		if page.Continue == l.token {
			return fmt.Errorf("list %s: page %d leads back to an earlier one: the server repeated a continue token", l.reading, l.pages)
		}
		if l.pages&(l.pages-1) == 0 {
			l.token = page.Continue // saved at powers of two, which detects a cycle within three rounds
		}
		// The token already determines the resource version, which is that of the first page.
		l.Continue = page.Continue
		l.ResourceVersion, l.ResourceVersionMatch = "", ""
	}
}

// page reads one page and reports whether the consumer wants to continue.
func (l *pageReader) page(ctx context.Context, meta *metav1.ListMeta, yield func(object.Head, error) bool) (bool, error) {
	values, err := query(&l.ListOptions)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", l.reading, err)
	}
	r := *l.reading
	req, resp, selecting, err := r.ask(ctx, call{verb: "list", method: http.MethodGet, query: values, list: true, repeat: once, stream: true})
	if err != nil {
		return false, err
	}
	if !selecting && r.Selection.Selector != "" {
		l.Selection = source.Selection{} // the server does not support the selector, so leave it out of later pages too
	}
	read := false
	defer func() {
		if read {
			finishBody(resp)
		} else {
			resp.Body.Close()
		}
	}()
	var some atomic.Bool // also set by unwanted items
	if wanted := r.Wanted; wanted != nil {
		r.Wanted = func(o object.Head) bool {
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
		decoder = decoder.OnSelector(func(string) { selected = source.SelectedByServer })
	}
	l.empty++
	for item, err := range decoder.List(resp.Body, meta, r.Known) {
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
		r.Selection.Tell(selected)
	}
	read = true
	return true, nil
}

// withCause adds the reason why ctx was canceled to err, which is often only the error from the interrupted
// read.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

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

// shardSelector is the parameter from KEP-5866. metav1.ListOptions has included it since v0.36.
const shardSelector = "shardSelector"

// ask sends a list or watch with the selector. If the server rejects it, ask resends it without the
// selector. selecting reports whether the response is for the request with the selector.
func (r *reading) ask(ctx context.Context, c call) (req *request, resp *http.Response, selecting bool, err error) {
	if confidential.Named(r.kind.Kind) || confidential.Type(r.declared) {
		ctx = confidential.Mark(ctx) // recorders must not see the request or the response
	}
	s := r.Selection
	if s.Selector == "" {
		req, resp, err = r.send(ctx, c)
		return req, resp, false, err
	}
	c.query.Set(shardSelector, s.Selector)
	if req, resp, err = r.send(ctx, c); err == nil {
		s.Tell(source.SelectionNotTold)
		return req, resp, true, nil
	}
	if !refusesSelector(err) {
		return req, resp, false, err
	}
	c.query.Del(shardSelector)
	if req, resp, err = r.send(ctx, c); err == nil {
		s.Tell(source.NotSelected)
	}
	return req, resp, false, err
}

// refusesSelector reports whether the selector may be the reason why a request was rejected: the server may
// not support it, or it may make the URL too long for a proxy.
func refusesSelector(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return strings.Contains(err.Error(), "header list larger than") // net/http's error text; the server responded with a large header
	}
	switch status.ErrStatus.Code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
		return true
	case http.StatusInternalServerError: // v1.36's response to a selector that it cannot parse
		return strings.Contains(status.ErrStatus.Message, "shard selector")
	}
	return false
}

// validateList rejects contradictory options, which the server would reject or, worse, silently resolve.
// See "Resource versions" in the Kubernetes API concepts, and KEP-3157 for initial events.
func validateList(o metav1.ListOptions) error {
	var errs []error
	complain := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	complain(o.Watch, "the options ask for a watch: use Watch")
	complain(o.SendInitialEvents != nil, "sendInitialEvents is only for watches")
	complain(o.Continue != "" && o.ResourceVersion != "" && o.ResourceVersion != "0",
		"continue and resourceVersion contradict each other: the continue token implies a resource version")
	complain(o.Continue != "" && o.ResourceVersionMatch != "", "continue and resourceVersionMatch contradict each other")
	complain(o.ResourceVersionMatch != "" && o.ResourceVersion == "", "resourceVersionMatch needs a resourceVersion")
	complain(o.ResourceVersionMatch == metav1.ResourceVersionMatchExact && o.ResourceVersion == "0",
		"no list can be exactly at resourceVersion \"0\", which means any: use NotOlderThan")
	return errors.Join(append(errs, validateCommon(o))...)
}

func validateWatch(o metav1.ListOptions) error {
	var errs []error
	complain := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	complain(o.Continue != "", "continue is only for lists")
	complain(o.SendInitialEvents == nil && o.ResourceVersionMatch != "", "resourceVersionMatch on a watch needs sendInitialEvents")
	complain(o.SendInitialEvents != nil && o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan,
		"sendInitialEvents needs resourceVersionMatch NotOlderThan")
	return errors.Join(append(errs, validateCommon(o))...)
}

func validateCommon(o metav1.ListOptions) error {
	var errs []error
	switch o.ResourceVersionMatch {
	case "", metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan:
	default:
		errs = append(errs, fmt.Errorf("unknown resourceVersionMatch %q: want Exact or NotOlderThan", o.ResourceVersionMatch))
	}
	if o.Limit < 0 {
		errs = append(errs, fmt.Errorf("the limit %d is negative: use zero for none", o.Limit))
	}
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds < 0 {
		errs = append(errs, fmt.Errorf("the timeout of %d s is negative: leave it unset for none", *o.TimeoutSeconds))
	}
	return errors.Join(errs...)
}
