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

// upstream makes a source.ListerWatcher of one of client-go's. Objects come decoded
// from there, so that a list is whole in memory before its first item is
// yielded. One that ignores its context holds up the end of a run until it
// answers.
type upstream struct {
	lw   cache.ListerWatcherWithContext
	of   reflect.Type            // of the objects; nil for any
	kind schema.GroupVersionKind // the same, of untyped objects; empty for any
	name string
}

// newSource keeps nothing of the example, which its owner may go on to use: a
// cache of controller-runtime gives what somebody reads into.
func newSource(lw cache.ListerWatcher, example runtime.Object, name string) *upstream {
	s := &upstream{lw: cache.ToListerWatcherWithContext(lw), of: reflect.TypeOf(example), name: name}
	if untyped, ok := example.(*unstructured.Unstructured); ok {
		s.kind = untyped.GroupVersionKind()
	}
	return s
}

// Describe implements source.ListerWatcher.
func (s *upstream) Describe() source.Description { return source.Description{Name: s.name} }

// maxEmptyPages is how many pages without an item a list may have in a row, as in package rest.
const maxEmptyPages = 1000

// List implements source.ListerWatcher.
func (s *upstream) List(ctx context.Context, req source.Request) source.List[object.Head] {
	opts := req.ListOptions
	list := source.List[object.Head]{Meta: new(metav1.ListMeta)}
	list.Items = func(yield func(object.Head, error) bool) {
		empty := 0
		token := "" // that led to some earlier page
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
				yield(nil, fmt.Errorf("list %s: page %d leads to itself: the source gave the continue token that it was asked with", s.name, pages))
				return
			case token:
				yield(nil, fmt.Errorf("list %s: page %d leads back to an earlier one: the source gave a continue token again", s.name, pages))
				return
			}
			if empty >= maxEmptyPages {
				yield(nil, fmt.Errorf("list %s: %d pages in a row held nothing, and the source promises more", s.name, empty))
				return
			}
			if pages&(pages-1) == 0 {
				token = page.GetContinue() // at powers of two: a circle is found within three rounds
			}
			// The token stands for the resource version of the first page.
			opts.Continue = page.GetContinue()
			opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
		}
	}
	return list
}

// page reads one page, and says how many items it has. It returns nil where the consumer wants
// no more.
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
		defer cancel() // first, so that nobody reads a body that is being closed
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

// traced returns a context whose requests note what they wait for. A request of
// client-go that is refused with a Retry-After does not return: it rests for that long
// and asks again, up to ten times. All that can be seen from here is that the server has
// answered.
func traced(ctx context.Context) context.Context {
	p := source.ProgressOf(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(host string) { p.Step(host, "client-go asks") },
		GotFirstResponseByte: func() { p.Rest("client-go, which reads the answer or rests as it was told there") },
	})
}

// endTime is how long a watch may take to close its channel when it is stopped.
const endTime = time.Second

// end stops w and takes what it still has, without which some watches (those of
// watch.Filter, for example) keep a goroutine for ever. One that does not close
// its channel, as it must, is left after endTime.
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

// event checks one event of a watch. Stock client-go passes over objects of
// another type, and takes them from a list; here they are failures (L21).
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

// check compares an object with what is wanted.
func (s *upstream) check(o object.Object) error {
	if got := reflect.TypeOf(o); s.of != nil && got != s.of {
		return fmt.Errorf("is a %v, want a %v", got, s.of)
	}
	if got := o.GetObjectKind().GroupVersionKind(); !s.kind.Empty() && got != s.kind {
		return fmt.Errorf("is %v, want %v", got, s.kind)
	}
	return nil
}
