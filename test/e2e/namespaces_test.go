package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// TestNamespacesOfOneInformer: a user may read two of three namespaces. The third one blocks the
// sync and is named; the others are followed meanwhile. Then it is removed, and added again when
// the user may read it.
func TestNamespacesOfOneInformer(t *testing.T) {
	boss, one := admin(t)
	two, three := newNamespace(t, boss), newNamespace(t, boss)
	grant(t, boss, one)
	grant(t, boss, two)
	maps := rest.ResourceFor[*corev1.ConfigMap](boss)
	write := func(ns, name string) *corev1.ConfigMap {
		t.Helper()
		m, err := maps.Namespace(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		return m
	}
	opts := factory.Options{}
	opts.Namespaces = []string{one, two, three}
	opts.Timing.Backoff, opts.SyncPatience = brisk, 300*time.Millisecond
	f := factory.New(connect(t, shared, "nobody"), opts)
	informer := factory.Informer[*corev1.ConfigMap](f)
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Wait()
	defer cancel()
	within, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	f.Start(ctx)

	err := f.WaitForSync(within)
	require.ErrorIs(t, err, sharedinformer.ErrNotSynced)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.Contains(t, err.Error(), "configmaps in namespace "+three+": ")
	require.NotContains(t, err.Error(), one)
	states := map[string]reflector.State{}
	for _, s := range informer.Status().Namespaces {
		states[s.Resource] = s.State
	}
	require.Equal(t, reflector.Watching, states["configmaps in namespace "+one], "%v", states)
	m := write(one, "early")
	poll(t, "a namespace is followed while another is refused", func() error {
		if _, ok := informer.Cache().Get(object.KeyOf(m)); !ok {
			return fmt.Errorf("%s is not cached", object.KeyOf(m))
		}
		return nil
	})

	require.NoError(t, f.SetNamespaces([]string{one, two}))
	require.NoError(t, f.WaitForSync(within))
	m = write(two, "mine")
	require.NoError(t, informer.WaitForRV(within, m.ResourceVersion, two))
	_, ok := informer.Cache().Get(object.KeyOf(m))
	require.True(t, ok)

	grant(t, boss, three)
	write(three, "late")
	require.NoError(t, f.SetNamespaces([]string{two, three}))
	poll(t, "the server knows of the grant, and the sync covers the namespace", func() error { return f.WaitForSync(within) })
	names := map[string]int{}
	for m := range informer.Cache().All() {
		names[m.Namespace]++
	}
	require.Equal(t, map[string]int{two: 1, three: 1}, names)
}
