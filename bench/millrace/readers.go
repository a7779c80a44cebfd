package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/bench/protocol"
)

// readers lists namespaces while events come.
func readers(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := protocol.NewSmallFeed(s)
	i := newLocal[*metav1.PartialObjectMetadata](feed)
	listeners, _ := listen(s, i)
	stop, err := start(ctx, i)
	if err != nil {
		return nil, err
	}
	cache := i.Cache()
	return protocol.ReadWhile(ctx, s, feed.Namespaces(), protocol.ReaderSteps{
		Go: feed.Go, Stop: stop, Heard: listeners[0].Heard,
		List: func(namespace string) (n int, err error) {
			for o := range cache.Namespace(namespace) {
				if o.Namespace == namespace {
					n++
				}
			}
			return n, nil
		},
	})
}
