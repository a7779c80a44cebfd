package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// A controller on a real server: it creates a Secret for each ConfigMap and counts in it, writes in
// every reconcile, sees its own writes, and records events.
func TestController(t *testing.T) {
	client, ns := admin(t)
	ctx, cancel := context.WithCancel(t.Context())
	f := factory.New(client, factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}})
	maps, secrets := controller.ClientFor[*corev1.ConfigMap](f), controller.ClientFor[*corev1.Secret](f)
	recorder := events.New(client, "example.com/counter", events.Options{Instance: "e2e"})

	const objects, rounds = 20, 10
	var mu sync.Mutex // guards counts
	counts := map[string]int{}
	finished := make(chan struct{})
	c, err := controller.New("counter", controller.Objects(maps, func(ctx context.Context, m *corev1.ConfigMap) (controller.Result, error) {
		mu.Lock()
		count := counts[m.Name]
		mu.Unlock()
		if count == rounds {
			return controller.Result{}, nil
		}
		if s, ok := secrets.Get(object.KeyOf(m)); count > 0 && (!ok || s.Annotations["count"] != fmt.Sprint(count)) {
			t.Errorf("%s: the cache has %v, but %d was written", m.Name, s.GetAnnotations(), count)
		}
		count++
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: m.Name}}
		secret, did, err := controller.CreateOrUpdate(ctx, secrets, secret, func(s *corev1.Secret) error {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, "count", fmt.Sprint(count))
			return controller.SetControllerReference(m, s, client.Scheme())
		})
		if err != nil {
			return controller.Result{}, err
		}
		recorder.Record(m, events.Event{Reason: "Counted", Action: "Count", Note: "once more", Related: secret})
		mu.Lock()
		defer mu.Unlock()
		counts[m.Name] = count
		if did == controller.Unchanged {
			t.Errorf("%s: nothing was written", m.Name)
		}
		if len(counts) == objects && all(counts, rounds) {
			close(finished)
		}
		return controller.Result{Requeue: true}, nil
	}), controller.Options{Concurrency: 4})
	require.NoError(t, err)
	c.Watch(controller.For(maps.Informer()))
	c.Watch(controller.Owns(secrets.Informer(), maps))

	var runs sync.WaitGroup
	defer runs.Wait()
	defer cancel()
	runs.Go(func() {
		if err := recorder.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	runs.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	f.Start(ctx)
	defer f.Wait()
	for n := range objects {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("c", n)}}
		_, err := rest.ResourceFor[*corev1.ConfigMap](client).Create(ctx, m, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	select {
	case <-finished:
	case <-time.After(time.Minute):
		t.Fatalf("not finished: %+v", c.Status())
	}
	s := c.Status()
	require.Zero(t, s.Stale)
	t.Logf("%d reconciles, %d of them parked first, %d errors", s.Successes+s.Requeues, s.ParkedTotal, s.Errors)

	cancel()
	runs.Wait()
	told := map[string]*eventsv1.Event{}
	for event, err := range rest.ResourceFor[*eventsv1.Event](client).Namespace(ns).List(t.Context(), metav1.ListOptions{}).Items {
		require.NoError(t, err)
		told[event.Regarding.Name] = event
	}
	require.Len(t, told, objects, "%+v", recorder.Status())
	for name, event := range told {
		require.Equal(t, "Secret", event.Related.Kind)
		require.NotNil(t, event.Series, name)
		require.EqualValues(t, rounds, event.Series.Count, name)
	}
}

func all(counts map[string]int, n int) bool {
	for _, count := range counts {
		if count != n {
			return false
		}
	}
	return true
}
