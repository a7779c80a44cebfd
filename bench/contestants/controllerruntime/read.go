package controllerruntime

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// read gets Pods from a synced cache as copies, which is the default.
func (k Stack) read(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	types, err := prepare(s)
	if err != nil {
		return nil, err
	}
	all, err := k.Cache(&rest.Config{Host: s.URL}, cache.Options{Scheme: types})
	if err != nil {
		return nil, err
	}
	const shelf = "shelf"
	err = all.IndexField(ctx, &corev1.Pod{}, shelf, func(o client.Object) []string { return []string{scenario.ShelfOf(o.(*corev1.Pod), s.Objects)} })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- all.Start(ctx) }()
	if _, err := all.GetInformer(ctx, &corev1.Pod{}); err != nil {
		return nil, err
	}
	if !all.WaitForCacheSync(ctx) {
		return nil, errors.New("the cache has not synced")
	}
	reads := readsOf(ctx, all, shelf)
	if reads.Keys, err = keysOf(ctx, all); err != nil {
		return nil, err
	}
	r, err := reads.Measure(s)
	cancel()
	return r, errors.Join(err, <-ended)
}

func readsOf(ctx context.Context, all cache.Cache, shelf string) scenario.Reads {
	return scenario.Reads{
		Get: func(key types.NamespacedName) (*corev1.Pod, error) {
			p := new(corev1.Pod)
			return p, all.Get(ctx, key, p)
		},
		Shelf: func(name string) (int, error) {
			var pods corev1.PodList
			err := all.List(ctx, &pods, client.MatchingFields{shelf: name})
			return len(pods.Items), err
		},
	}
}

func keysOf(ctx context.Context, all cache.Cache) (keys []types.NamespacedName, err error) {
	var pods corev1.PodList
	if err := all.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		keys = append(keys, client.ObjectKeyFromObject(&pods.Items[i]))
	}
	return keys, nil
}
