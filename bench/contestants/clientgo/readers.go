package clientgo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// readers lists namespaces while events arrive.
func (k Stack) readers(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewSmallFeed(s)
	window := feed.Window(scenario.OnTheWay)
	i, err := newLocal(k, s, feed, metadataList)
	if err != nil {
		return nil, err
	}
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { window.Hear() }})
	if err != nil {
		return nil, err
	}
	stop := start(ctx, i)
	indexer := i.GetIndexer()
	return scenario.ReadWhile(ctx, s, feed.Namespaces(), scenario.ReaderSteps{
		Go: feed.Go, Stop: stop, Heard: window.Heard,
		List: func(namespace string) (n int, err error) {
			objects, err := indexer.ByIndex(cache.NamespaceIndex, namespace)
			for _, o := range objects {
				if o.(*metav1.PartialObjectMetadata) != nil {
					n++
				}
			}
			return n, err
		},
	})
}
