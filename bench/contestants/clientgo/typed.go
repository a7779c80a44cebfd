package clientgo

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/internal/objects"
)

// newTypedInformer returns an informer for custom resources with a Go type, as generated code would.
func (k Stack) newTypedInformer(config *rest.Config) (starter, cache.SharedIndexInformer, error) {
	scheme := runtime.NewScheme()
	scenario.AddWidgets(scheme)
	version := objects.WidgetVersion()
	config.APIPath, config.GroupVersion = "/apis", &version
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	source := cache.NewListWatchFromClient(client, objects.WidgetPlural, metav1.NamespaceAll, fields.Everything())
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	i := k.Informer(source, &scenario.Widget{}, 0, indexers)
	return &single{informer: i}, i, nil
}

// single is a factory that contains a single informer.
type single struct {
	informer cache.SharedIndexInformer
	task     sync.WaitGroup
}

func (s *single) StartWithContext(ctx context.Context) {
	s.task.Go(func() { s.informer.RunWithContext(ctx) })
}

func (s *single) Shutdown() { s.task.Wait() }
