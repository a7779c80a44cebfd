package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

const (
	crowd   = 5000
	writers = 16
)

// TestChurn creates, changes and deletes many objects while informers run, stop and start.
func TestChurn(t *testing.T) {
	client, ns := admin(t)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	steady := follow(t, maps, sharedinformer.Options{})
	restarted := follow(t, maps, sharedinformer.Options{})
	slow := prepare(t, maps, sharedinformer.Options{Compact: true})
	slow.start()

	t.Log("create")
	stopStart := restarts(t, restarted)
	crowdOf(t, func(ctx context.Context, n int) error {
		_, err := maps.Create(ctx, configMap(n), metav1.CreateOptions{})
		return err
	})
	stopStart()
	for _, f := range []*follower[*corev1.ConfigMap]{steady, restarted, slow} {
		f.sync()
		f.agree()
		f.awaitLen(crowd)
	}

	t.Log("change, replace and delete")
	late := follow(t, maps, sharedinformer.Options{})
	restarted.stop()
	churn(t, maps)
	restarted.start()
	stopStart = restarts(t, restarted)
	churn(t, maps)
	stopStart()
	for _, f := range []*follower[*corev1.ConfigMap]{steady, restarted, slow} {
		f.agree()
		require.Equal(t, uint64(1), f.Status().Reflector.Lists, "one list is enough: %s", f)
		require.Zero(t, f.Status().Reflector.Failures, "%s", f)
	}
	// The server limits the buffer of a watch that is still receiving its initial events. It may
	// end the watch of the late informer, which then lists.
	late.agree()
	require.LessOrEqual(t, late.Status().Reflector.Lists, uint64(2), "%s", late)
	require.LessOrEqual(t, late.Status().Reflector.Failures, uint64(1), "%s", late)

	t.Log("delete all")
	restarted.stop()
	require.NoError(t, maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	restarted.start()
	for _, f := range []*follower[*corev1.ConfigMap]{steady, restarted, slow, late} {
		f.awaitLen(0)
		f.agree()
		calls := f.calls()
		require.Equal(t, calls.added, calls.deleted, "each came and went")
	}
	// The informer that ran all the time without compaction has seen every change.
	calls := steady.calls()
	require.Zero(t, calls.unknown)
	require.Equal(t, uint64(calls.added-calls.initial+calls.updated+calls.deleted), steady.Status().Reflector.Events)
}

func configMap(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name(n), Labels: map[string]string{"n": fmt.Sprint(n % 10)}},
		Data:       map[string]string{"n": fmt.Sprint(n)},
	}
}

func name(n int) string { return fmt.Sprintf("c-%05d", n) }

// churn changes most of the objects, replaces a tenth, and deletes another tenth and restores it
// later.
func churn(t *testing.T, maps *rest.Resource[*corev1.ConfigMap]) {
	t.Helper()
	crowdOf(t, func(ctx context.Context, n int) error {
		key := object.Key{Name: name(n)}
		switch n % 10 {
		case 0: // replaced: another object of the same name
			if err := maps.Delete(ctx, key, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			_, err := maps.Create(ctx, configMap(n), metav1.CreateOptions{})
			return err
		case 1: // deleted, or created again
			err := maps.Delete(ctx, key, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				_, err = maps.Create(ctx, configMap(n), metav1.CreateOptions{})
			}
			return err
		case 2, 3, 4:
			return nil
		case 5: // read, then written with the version that was read
			o, err := maps.Get(ctx, key, metav1.GetOptions{})
			if err != nil {
				return err
			}
			o.Data["updated"] = o.ResourceVersion
			_, err = maps.Update(ctx, o, metav1.UpdateOptions{})
			return err
		}
		patch := fmt.Appendf(nil, `{"data":{"patched":"%d"}}`, rand.Int())
		_, err := maps.Patch(ctx, key, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// crowdOf calls do for each object, from several goroutines.
func crowdOf(t *testing.T, do func(ctx context.Context, n int) error) {
	t.Helper()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; n < crowd; n += writers {
				if err := do(t.Context(), n); err != nil {
					t.Errorf("object %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
}

// restarts stops and starts f repeatedly, each time after it has received an event, until the
// returned function is called. f is running then.
func restarts[T object.Object](t *testing.T, f *follower[T]) (end func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			f.mu.Lock()
			heard := f.changed
			f.mu.Unlock()
			select {
			case <-heard:
			case <-quit:
				t.Logf("%d restarts", n)
				return
			}
			f.stop()
			f.start()
		}
	}()
	return func() { close(quit); <-ended }
}
