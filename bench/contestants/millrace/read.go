package millrace

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// read gets Pods from a synced cache. They share equal values and are not copied.
func (k Stack) read(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	f, err := k.newFactory(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.Wait()
	defer cancel()
	i := factory.Informer[*corev1.Pod](f)
	shelves := sharedinformer.AddIndex(i, "shelf", func(p *corev1.Pod) []string { return []string{scenario.ShelfOf(p, s.Objects)} })
	f.Start(ctx)
	if err := i.WaitForSync(ctx); err != nil {
		return nil, err
	}
	cache := i.Cache()
	reads := scenario.Reads{
		Get: func(key types.NamespacedName) (*corev1.Pod, error) {
			p, ok := cache.Get(object.Key(key))
			if !ok {
				return nil, fmt.Errorf("the cache has no %s", key)
			}
			return p, nil
		},
		Shelf: func(shelf string) (n int, err error) {
			for p := range shelves.Get(shelf) {
				if p != nil {
					n++
				}
			}
			return n, nil
		},
	}
	for p := range cache.All() {
		reads.Keys = append(reads.Keys, types.NamespacedName(object.KeyOf(p)))
	}
	return reads.Measure(s)
}
