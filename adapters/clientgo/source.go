package clientgo

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptrace"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// upstream adapts a client-go lister-watcher to source.ListerWatcher. Objects arrive decoded, so the whole
// list is in memory before the first item is yielded. If lw ignores its context, Run cannot return until lw
// returns.
type upstream struct {
	lw   cache.ListerWatcherWithContext
	of   reflect.Type            // type of the objects; nil for any
	kind schema.GroupVersionKind // kind of untyped objects; empty for any
	name string
}

// newSource does not retain the example, because the caller may reuse it: controller-runtime's
// cache passes the object to be read into.
func newSource(lw cache.ListerWatcher, example runtime.Object, name string) *upstream {
	s := &upstream{lw: cache.ToListerWatcherWithContext(lw), of: reflect.TypeOf(example), name: name}
	if untyped, ok := example.(*unstructured.Unstructured); ok {
		s.kind = untyped.GroupVersionKind()
	}
	return s
}

// Describe implements source.ListerWatcher.
func (s *upstream) Describe() source.Description { return source.Description{Name: s.name} }

// maxEmptyPages limits the number of consecutive empty pages in a list, as in package rest.
const maxEmptyPages = 1000

// List implements source.ListerWatcher.
func (s *upstream) List(ctx context.Context, req source.Request) source.List[object.Head] {
	opts := req.ListOptions
	list := source.List[object.Head]{Meta: new(metav1.ListMeta)}
	list.Items = func(yield func(object.Head, error) bool) {
		empty := 0
		token := "" // from some earlier page
		for pages := 1; ; pages++ {
			page, items, err := s.page(ctx, opts, yield)
			if empty++; items > 0 {
				empty = 0
			}
			switch {
			case err != nil:
				yield(nil, err)
				return
			case page == nil:
				return
			case pages == 1:
				list.Meta.ResourceVersion = page.GetResourceVersion()
			}
			switch page.GetContinue() {
			case "":
				return
			case opts.Continue:
				yield(nil, fmt.Errorf("list %s: page %d leads to itself: the source returned the continue token that it received", s.name, pages))
				return
			case token:
				yield(nil, fmt.Errorf("list %s: page %d leads back to an earlier one: the source repeated a continue token", s.name, pages))
				return
			}
			if empty >= maxEmptyPages {
				yield(nil, fmt.Errorf("list %s: %d consecutive pages were empty, and the source announces more", s.name, empty))
				return
			}
			if pages&(pages-1) == 0 {
				token = page.GetContinue() // updated at powers of two, so a cycle is detected within three rounds
			}
			// The token implies the first page's resource version.
			opts.Continue = page.GetContinue()
			opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
		}
	}
	return list
}

// page reads one page and returns its number of items. It returns a nil page if the consumer has
// stopped.
func (s *upstream) page(ctx context.Context, opts metav1.ListOptions, yield func(object.Head, error) bool) (page metav1.ListInterface, items int, err error) {
	list, err := s.lw.ListWithContext(traced(ctx), opts)
	if err != nil {
		return nil, 0, err
	}
	page, err = meta.ListAccessor(list)
	if err != nil {
		return nil, 0, fmt.Errorf("list %s: %T: %w", s.name, list, err)
	}
	more := true
	err = meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
		items++
		o, ok := item.(object.Object)
		if !ok {
			return fmt.Errorf("list %s: a %T has no metadata", s.name, item)
		}
		if err := s.check(o); err != nil {
			return &wire.Error{Where: "item", Key: object.KeyOf(o), Err: err}
		}
		more = more && yield(o, nil)
		return nil
	})
	if err != nil || !more {
		return nil, items, err
	}
	return page, items, nil
}

// Watch implements source.ListerWatcher.
func (s *upstream) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	request, cancel := context.WithCancel(traced(ctx))
	w, err := s.lw.WatchWithContext(request, req.ListOptions)
	if err != nil {
		cancel()
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		defer end(w)
		defer cancel() // runs before end, so that no goroutine reads a body while it is being closed
		for {
			select {
			case e, ok := <-w.ResultChan():
				if !ok {
					return
				}
				event, err := s.event(e)
				if !yield(event, err) || err != nil {
					return
				}
			case <-ctx.Done():
				yield(wire.Event[object.Head]{}, context.Cause(ctx))
				return
			}
		}
	}, nil
}

// traced returns a context in which requests record what they are waiting for. If the server rejects a
// request with a Retry-After, client-go does not return: it sleeps that long and retries, up to ten times.
// All that is visible from here is that the server responded.
func traced(ctx context.Context) context.Context {
	p := source.ProgressOf(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(host string) { p.Step(host, "client-go asks") },
		GotFirstResponseByte: func() { p.Rest("client-go, which reads the answer or waits for Retry-After") },
	})
}

// endTime is the maximum time that a stopped watch may take to close its channel.
const endTime = time.Second

// end stops w and drains its channel, since some watches (such as watch.Filter's) would otherwise leak a
// goroutine. A stopped watch must close its channel; if it does not, end gives up after endTime.
func end(w watch.Interface) {
	w.Stop()
	late := time.NewTimer(endTime)
	defer late.Stop()
	for {
		select {
		case _, more := <-w.ResultChan():
			if !more {
				return
			}
		case <-late.C:
			return
		}
	}
}

// event checks one watch event. client-go ignores objects of the wrong type in a watch and accepts them in a
// list; here, they are an error in both (L21).
func (s *upstream) event(e watch.Event) (wire.Event[object.Head], error) {
	now := time.Now()
	event := wire.Event[object.Head]{Type: e.Type, Received: now, Decoded: now}
	if e.Type == watch.Error {
		return event, apierrors.FromObject(e.Object)
	}
	o, ok := e.Object.(object.Object)
	if !ok {
		return event, &wire.Error{Where: "event", Err: fmt.Errorf("a %T has no metadata", e.Object)}
	}
	event.Object = o
	if e.Type == watch.Bookmark {
		return event, nil
	}
	if err := s.check(o); err != nil {
		return event, &wire.Error{Where: "event", Key: object.KeyOf(o), Err: err}
	}
	return event, nil
}

// check checks an object's type and kind against the expected ones.
func (s *upstream) check(o object.Object) error {
	if got := reflect.TypeOf(o); s.of != nil && got != s.of {
		return fmt.Errorf("is a %v, want a %v", got, s.of)
	}
	if got := o.GetObjectKind().GroupVersionKind(); !s.kind.Empty() && got != s.kind {
		return fmt.Errorf("is %v, want %v", got, s.kind)
	}
	return nil
}
