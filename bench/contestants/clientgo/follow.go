package clientgo

import (
	"context"
	"fmt"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/internal/objects"
)

// starter is the interface shared by both kinds of factory.
type starter interface {
	StartWithContext(ctx context.Context)
	Shutdown()
}

// follower returns the typed informer for pods (over protobuf), or a dynamic or typed informer for custom
// resources.
func (k Stack) follower(s *protocol.Session) (starter, cache.SharedIndexInformer, error) {
	config := &rest.Config{Host: s.URL}
	if s.Params.On(scenario.Typed) {
		return k.newTypedInformer(config)
	}
	if s.Params.On(scenario.Custom) {
		f, err := k.Dynamic(config)
		if err != nil {
			return nil, nil, err
		}
		return dynamicStarter{f}, f.ForResource(objects.WidgetVersion().WithResource(objects.WidgetPlural)).Informer(), nil
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	f, err := k.Factory(config)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Core().V1().Pods().Informer(), nil
}

// dynamicStarter adapts a dynamic factory to the starter interface.
type dynamicStarter struct {
	dynamicinformer.DynamicSharedInformerFactory
}

func (d dynamicStarter) StartWithContext(ctx context.Context) { d.Start(ctx.Done()) }

// follow maintains a cache of the server's objects.
func (k Stack) follow(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	if err := setWatchList(s); err != nil {
		return nil, err
	}
	f, i, err := k.follower(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.Shutdown()
	defer cancel()
	listeners, registrations, err := listen(s, i)
	if err != nil {
		return nil, err
	}
	caches := []cache.SharedIndexInformer{i}
	if s.Params.On(scenario.ConfigMaps) {
		caches = append(caches, f.(informers.SharedInformerFactory).Core().V1().ConfigMaps().Informer())
	}
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	f.StartWithContext(ctx)
	for _, r := range registrations {
		<-r.HasSyncedChecker().Done()
	}
	for _, c := range caches {
		<-c.HasSyncedChecker().Done()
	}
	if err := scenario.Follow(s, listeners); err != nil {
		return nil, err
	}
	return account(s, listeners, caches...)
}

// listen adds the handlers.
func listen(s *protocol.Session, i cache.SharedIndexInformer) (listeners []*scenario.Listener, registrations []cache.ResourceEventHandlerRegistration, err error) {
	for range max(s.Params[scenario.Handlers], 1) {
		l := scenario.ListenerOf(s)
		r, err := i.AddEventHandler(handler(l))
		if err != nil {
			return nil, nil, err
		}
		listeners, registrations = append(listeners, l), append(registrations, r)
	}
	return listeners, registrations, nil
}

func handler(l *scenario.Listener) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			l.Called()
			if !initial {
				l.Hear(o.(metav1.Object))
			}
		},
		UpdateFunc: func(old, o any) { l.HearUpdate(old.(metav1.Object), o.(metav1.Object)) },
	}
}

// account reports the final state of the caches.
func account(s *protocol.Session, listeners []*scenario.Listener, caches ...cache.SharedIndexInformer) (*protocol.Result, error) {
	r := &protocol.Result{Metrics: s.Metrics, Live: s.Live()}
	for _, c := range caches {
		for _, o := range c.GetStore().List() {
			object, ok := o.(metav1.Object)
			if !ok {
				return nil, fmt.Errorf("the store contains a %T", o)
			}
			r.Objects++
			r.Digest.Add(object)
		}
	}
	for _, l := range listeners {
		r.Heard += l.Heard()
	}
	runtime.KeepAlive(caches)
	return r, nil
}
