package millrace

import (
	"context"
	"fmt"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// follow maintains a cache of the server's objects.
func (k Stack) follow(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	if s.Scenario == "restart" {
		return k.restart(ctx, s)
	}
	f, err := k.newFactory(s)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Params.On(scenario.Typed):
		return followType(ctx, s, f, factory.Informer[*scenario.Widget](f))
	case s.Params.On(scenario.Custom):
		return followType(ctx, s, f, factory.InformerWith(f, factory.For[*unstructured.Unstructured]{Kind: objects.WidgetVersion().WithKind(objects.WidgetKind)}))
	}
	return followType(ctx, s, f, factory.Informer[*corev1.Pod](f))
}

func (k Stack) newFactory(s *protocol.Session) (*factory.Factory, error) {
	types := scheme.New()
	scenario.AddWidgets(types)
	client, err := rest.NewClient(&config.Config{Host: s.URL}, types)
	if err != nil {
		return nil, err
	}
	opts := factory.Options{Initial: reflector.List, Store: k.Store, Snapshot: k.snapshot}
	if s.Params.On(scenario.WatchList) {
		opts.Initial = reflector.WatchList
	}
	return factory.New(client, opts), nil
}

func followType[T object.Object](ctx context.Context, s *protocol.Session, f *factory.Factory, i *sharedinformer.Informer[T]) (*protocol.Result, error) {
	countConfigMaps := func(*protocol.Result) {}
	if s.Params.On(scenario.ConfigMaps) {
		countConfigMaps = countOf(factory.Informer[*corev1.ConfigMap](f).Cache().All)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.Wait()
	defer cancel()
	listeners, registrations := listen(s, i)
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	f.Start(ctx)
	for _, r := range registrations {
		if err := r.WaitForSync(ctx); err != nil {
			return nil, err
		}
	}
	if err := f.WaitForSync(ctx); err != nil {
		return nil, err
	}
	if err := scenario.Follow(s, listeners); err != nil {
		return nil, err
	}
	r := account(s, i, listeners)
	countConfigMaps(r)
	return r, nil
}

// listen adds the handlers.
func listen[T object.Object](s *protocol.Session, i *sharedinformer.Informer[T]) (listeners []*scenario.Listener, registrations []*sharedinformer.Registration) {
	for n := range max(s.Params[scenario.Handlers], 1) {
		l := scenario.ListenerOf(s)
		listeners = append(listeners, l)
		opts := sharedinformer.HandlerOptions{Name: fmt.Sprint("handler ", n)}
		if s.Params.On(scenario.Keys) {
			registrations = append(registrations, i.AddHeadHandler(hearing[object.Head](l), opts))
		} else {
			registrations = append(registrations, i.AddHandlerWith(hearing[T](l), opts))
		}
	}
	return listeners, registrations
}

// hearing returns a handler that passes events on to a listener.
func hearing[T object.Head](l *scenario.Listener) sharedinformer.HandlerFuncs[T] {
	return sharedinformer.HandlerFuncs[T]{
		Add: func(_ context.Context, o T, initial bool) error {
			l.Called()
			if !initial {
				l.Hear(o)
			}
			return nil
		},
		Update: func(_ context.Context, old, o T) error { l.HearUpdate(old, o); return nil },
	}
}

// account reports the final state of the cache.
func account[T object.Object](s *protocol.Session, i *sharedinformer.Informer[T], listeners []*scenario.Listener) *protocol.Result {
	r := &protocol.Result{Metrics: s.Metrics, Live: s.Live()} // before packed objects are decoded
	for o := range i.Cache().All() {
		r.Objects++
		r.Digest.Add(o)
	}
	for _, l := range listeners {
		r.Heard += l.Heard()
	}
	runtime.KeepAlive(i)
	return r
}
