package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/internal/objects"
)

// prepare sets up process-wide state and returns the scheme.
func prepare(s *protocol.Session) (*runtime.Scheme, error) {
	value := "false"
	if s.Params.On(scenario.WatchList) {
		value = "true"
	}
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", value); err != nil {
		return nil, err
	}
	log.SetLogger(logr.Discard())
	types := runtime.NewScheme()
	scenario.AddWidgets(types)
	return types, scheme.AddToScheme(types)
}

// follow maintains a cache of the server's objects.
func (k Stack) follow(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	types, err := prepare(s)
	if err != nil {
		return nil, err
	}
	all, err := k.Cache(&rest.Config{Host: s.URL}, cache.Options{Scheme: types})
	if err != nil {
		return nil, err
	}
	object, list := kinds(s)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- all.Start(ctx) }()
	informer, err := all.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	lists := []client.ObjectList{list}
	if s.Params.On(scenario.ConfigMaps) {
		lists = append(lists, &corev1.ConfigMapList{})
		if _, err := all.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false)); err != nil {
			return nil, err
		}
	}
	listeners, err := listen(s, informer)
	if err != nil {
		return nil, err
	}
	if !all.WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	if err := scenario.Follow(s, listeners); err != nil {
		return nil, err
	}
	result, err := account(ctx, s, all, listeners, lists...)
	cancel()
	return result, errors.Join(err, <-ended)
}

// kinds returns an empty object and an empty list for the cached kind.
func kinds(s *protocol.Session) (client.Object, client.ObjectList) {
	switch {
	case s.Params.On(scenario.Typed):
		return &scenario.Widget{}, &scenario.WidgetList{}
	case !s.Params.On(scenario.Custom):
		return &corev1.Pod{}, &corev1.PodList{}
	}
	object, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	version := objects.WidgetVersion()
	object.SetGroupVersionKind(version.WithKind(objects.WidgetKind))
	list.SetGroupVersionKind(version.WithKind(objects.WidgetKind + "List"))
	return object, list
}

// listen adds the handlers and waits until they have synced.
func listen(s *protocol.Session, i cache.Informer) (listeners []*scenario.Listener, err error) {
	var registrations []toolscache.ResourceEventHandlerRegistration
	for range max(s.Params[scenario.Handlers], 1) {
		l := scenario.ListenerOf(s)
		r, err := i.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(o any, initial bool) {
				if !initial {
					l.Hear(o.(metav1.Object))
				}
			},
			UpdateFunc: func(old, o any) { l.HearUpdate(old.(metav1.Object), o.(metav1.Object)) },
		})
		if err != nil {
			return nil, err
		}
		listeners, registrations = append(listeners, l), append(registrations, r)
	}
	for _, r := range registrations {
		<-r.HasSyncedChecker().Done()
	}
	return listeners, nil
}

// account reports the final state of the cache. It lists one namespace at a time, so it needs little memory even
// if the cache has to decode what it lists.
func account(ctx context.Context, s *protocol.Session, all cache.Cache, listeners []*scenario.Listener, lists ...client.ObjectList) (*protocol.Result, error) {
	r := &protocol.Result{Metrics: s.Metrics, Live: s.Live()}
	for _, l := range listeners {
		r.Heard += l.Heard()
	}
	namespaces := objects.NamespaceNames()
	if s.Params.On(scenario.Hostile) { // nearly each object has its own
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, list := range lists {
		for _, namespace := range namespaces {
			if err := add(ctx, r, all, list, client.InNamespace(namespace)); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// add adds the cached objects of one kind to a result.
func add(ctx context.Context, r *protocol.Result, all cache.Cache, list client.ObjectList, opts ...client.ListOption) error {
	if err := all.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(metav1.Object)
		if !ok {
			return fmt.Errorf("the cache contains a %T", o)
		}
		r.Objects++
		r.Digest.Add(object)
		return nil
	})
}
