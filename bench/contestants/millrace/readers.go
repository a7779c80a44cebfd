package millrace

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// readers lists namespaces while events arrive.
func (k Stack) readers(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewSmallFeed(s)
	window := feed.Window(scenario.OnTheWay)
	i := newLocal[*metav1.PartialObjectMetadata](k, feed)
	i.AddHandler(sharedinformer.HandlerFuncs[*metav1.PartialObjectMetadata]{
		Update: func(context.Context, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata) error {
			window.Hear()
			return nil
		},
	})
	stop, err := start(ctx, i)
	if err != nil {
		return nil, err
	}
	cache := i.Cache()
	return scenario.ReadWhile(ctx, s, feed.Namespaces(), scenario.ReaderSteps{
		Go: feed.Go, Stop: stop, Heard: window.Heard,
		List: func(namespace string) (n int, err error) {
			for o := range cache.Namespace(namespace) {
				if o != nil {
					n++
				}
			}
			return n, nil
		},
	})
}
