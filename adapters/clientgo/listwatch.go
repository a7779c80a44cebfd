package clientgo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

//go:generate go run ./internal/generate

// typedClient is the subset of a typed client's methods that an informer needs.
type typedClient[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// listWatch returns a cache.ListWatch for a typed client.
func listWatch[L runtime.Object](client typedClient[L]) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, opts)
		},
		WatchFuncWithContext: client.Watch,
	}
}

// later is a typedClient that is looked up at each request. Until then, the client that it comes from may be nil, as
// in client-go's factories.
type later[L runtime.Object] func() typedClient[L]

// List implements typedClient.
func (l later[L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	return l().List(ctx, opts)
}

// Watch implements typedClient.
func (l later[L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return l().Watch(ctx, opts)
}
