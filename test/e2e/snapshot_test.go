package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
)

// confirmed is the time within which a server confirms or corrects a snapshot: the bookmark before
// the end of a watch arrives after a second or two.
const confirmed = 8 * time.Second

// An informer starts with the objects of its predecessor, and the server sends the changes.
func TestC02_TheServerConfirmsASnapshot(t *testing.T) {
	t.Parallel()
	client := connect(t, shared, "admin")
	ns := newNamespace(t, client)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	for n := range 20 {
		_, err := maps.Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	in := snapshot.In(t.TempDir(), snapshot.Options{})
	changes := []struct {
		name    string
		change  func()
		objects int
		resumed bool
	}{
		{"at first", func() {}, 20, false},
		{"nothing has happened", func() {}, 20, true},
		{"another kind has changed", func() {
			_, err := rest.ResourceFor[*corev1.Pod](client).Namespace(ns).Create(t.Context(), newPod("other"), metav1.CreateOptions{})
			require.NoError(t, err)
		}, 20, true},
		{"one is new, one is gone", func() {
			require.NoError(t, maps.Delete(t.Context(), object.Key{Name: name(3)}, metav1.DeleteOptions{}))
			_, err := maps.Create(t.Context(), configMap(30), metav1.CreateOptions{})
			require.NoError(t, err)
		}, 20, true},
		{"all but one are gone", func() {
			for n := range 20 {
				if n != 3 {
					require.NoError(t, maps.Delete(t.Context(), object.Key{Name: name(n)}, metav1.DeleteOptions{}))
				}
			}
		}, 1, true},
	}
	for _, c := range changes {
		c.change()
		for _, store := range []sharedinformer.Store{sharedinformer.Packed, sharedinformer.Whole} {
			if c.name == "at first" && store == sharedinformer.Whole {
				continue
			}
			i := sharedinformer.New[*corev1.ConfigMap](maps.Source(), sharedinformer.Options{Snapshot: in, Store: store})
			var missed []string
			i.AddHandler(sharedinformer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e sharedinformer.Event[*corev1.ConfigMap]) error {
				if e.Type != sharedinformer.Add || !e.Initial {
					missed = append(missed, e.Object.Name)
				}
				return nil
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began := time.Now()
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			require.NoError(t, i.WaitForSync(ctx))
			took := time.Since(began)
			t.Logf("%s, %s: %v", c.name, store, took.Round(time.Millisecond))
			require.Less(t, took, confirmed)
			s := i.Status()
			require.Equal(t, c.resumed, s.Reflector.Resumed, "%+v %v", s.Snapshot, s.Reflector.Failure)
			have := 0
			for o := range i.Cache().All() {
				if !strings.HasPrefix(o.Name, "kube-") { // as for a namespace
					have++
				}
			}
			require.Equal(t, c.objects, have)
			require.Empty(t, missed)
			cancel()
			require.NoError(t, wait())
		}
	}
}
