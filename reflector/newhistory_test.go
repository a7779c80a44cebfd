package reflector_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// After the server's history went back, the same version of the same object may have other content. A watch
// that begins while the consumer still holds the old history must not take objects from it.
func TestL17_AWatchAfterARollbackDoesNotReuseTheOldHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		put := func(label, value string) (rv string) {
			pod := &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "pod", Annotations: map[string]string{"is": value}, Labels: map[string]string{"app": label}},
			}
			o, err := srv.Update(pod)
			if err != nil {
				o, err = srv.Create(pod)
			}
			require.NoError(t, err)
			return o.GetResourceVersion()
		}
		put("other", "")
		backup := srv.Snapshot()
		lost := put("web", "lost")

		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()

		// The consumer applies the first list, and then takes its time, as for the comparison of a large list.
		var mu sync.Mutex
		cache := map[object.Key]object.Head{}
		queue := deltafifo.New(deltafifo.Options{})
		r := reflector.New(rest.ResourceFor[*corev1.Pod](client).Source(), queue, reflector.Options{
			LabelSelector: labels.SelectorFromSet(labels.Set{"app": "web"}),
			Known: func(key object.Key) (object.Head, bool) {
				mu.Lock()
				defer mu.Unlock()
				o, ok := cache[key]
				return o, ok
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		for _, d := range queue.TryPop() {
			for _, o := range d.Items {
				mu.Lock()
				cache[object.KeyOf(o)] = o
				mu.Unlock()
			}
		}
		require.Len(t, cache, 1)

		srv.Restore(backup)
		time.Sleep(time.Hour)
		require.Equal(t, backup.RV(), r.Status().RV)
		require.True(t, queue.NewHistoryQueued(""))
		require.Equal(t, lost, put("web", "new"), "the new history assigns the version again")
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, <-ended)
		var got []string
		for _, d := range queue.TryPop() {
			if d.Object != nil {
				got = append(got, d.Object.GetAnnotations()["is"])
			}
		}
		require.Equal(t, []string{"new"}, got)
	})
}
