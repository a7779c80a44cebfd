package clientgo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// BenchmarkSync feeds 10,000 decoded Pods to an informer with one index and one handler.
func BenchmarkSync(b *testing.B) {
	list := corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10000"}}
	for n := range 10_000 {
		p := pod(fmt.Sprint("p", n))
		p.ResourceVersion = fmt.Sprint(n + 1)
		list.Items = append(list.Items, *p)
	}
	lw := unstreamed{cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewRaceFreeFake(), nil
		},
	}}
	for _, side := range []struct {
		name        string
		newInformer func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer
	}{{"client-go", cache.NewSharedIndexInformer}, {"millrace", clientgo.NewInformer}} {
		b.Run(side.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				i := side.newInformer(&lw, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
				h, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
				require.NoError(b, err)
				ctx, cancel := context.WithCancel(b.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); i.RunWithContext(ctx) }()
				<-h.HasSyncedChecker().Done()
				require.Len(b, i.GetStore().ListKeys(), len(list.Items))
				cancel()
				<-ended
			}
		})
	}
}

// unstreamed is a cache.ListWatch that cannot stream a list.
type unstreamed struct{ cache.ListWatch }

// IsWatchListSemanticsUnSupported tells reflectors not to stream the list.
func (*unstreamed) IsWatchListSemanticsUnSupported() bool { return true }
