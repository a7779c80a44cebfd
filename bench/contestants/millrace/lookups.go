package millrace

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// cachedRead reads from a cache that does not change.
func (k Stack) cachedRead(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewFeed(s)
	i := newLocal(k, feed)
	byNode := sharedinformer.AddIndex(i, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	stop, err := start(ctx, i)
	if err != nil {
		return nil, err
	}
	defer stop()
	cache, copied := i.Cache(), s.Params.On(scenario.Copied)
	take := func(p *corev1.Pod) int {
		if copied && p.DeepCopy() == nil {
			return 0
		}
		return 1
	}
	return scenario.Lookups{
		Get: func(key types.NamespacedName) (int, error) {
			p, ok := cache.Get(object.Key(key))
			if !ok {
				return 0, nil
			}
			return take(p), nil
		},
		Namespace: func(namespace string) (n int, err error) {
			for p := range cache.Namespace(namespace) {
				n += take(p)
			}
			return n, nil
		},
		Label: func(selector labels.Selector) (n int, err error) {
			for p := range cache.Select(selector) {
				n += take(p)
			}
			return n, nil
		},
		Node: func(node string) (n int, err error) {
			for p := range byNode.Get(node) {
				n += take(p)
			}
			return n, nil
		},
	}.Measure(s, feed.Items)
}
