package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// TestOptionalKind requests a kind before it exists, follows it, and sees it removed with its
// definition and created again.
func TestOptionalKind(t *testing.T) {
	client, ns := admin(t)
	kind := object.GVK{Group: "optional.example.com", Version: "v1", Kind: "Widget"}
	widgets := rest.ResourceForKind[*unstructured.Unstructured](client, kind).Namespace(ns)
	opts := sharedinformer.Options{SyncPatience: 50 * time.Millisecond}
	opts.Timing.Backoff = brisk
	f := follow(t, widgets, opts)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	err := f.WaitForSync(ctx)
	require.ErrorIs(t, err, sharedinformer.ErrNotSynced)
	require.Regexp(t, `Widget.*: resolve: .*optional\.example\.com`, err.Error())
	require.True(t, f.Status().Reflector.Failure.Refused(), "%s", f)

	define(t, client, "widgets", kind)
	f.awaitStatus("the kind is found", func(s sharedinformer.Status) bool { return s.Synced })
	create := func(name string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
		u.SetName(name)
		_, err := widgets.Create(t.Context(), u, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	create("a")
	create("b")
	f.agree()
	require.Equal(t, "widgets.optional.example.com in namespace "+ns, f.Name())

	crds := rest.ResourceForKind[*metav1.PartialObjectMetadata](client, crdKind)
	key := object.Key{Name: "widgets.optional.example.com"}
	require.NoError(t, crds.Delete(t.Context(), key, metav1.DeleteOptions{}))
	f.awaitLen(0)
	f.awaitStatus("the resource is gone", func(s sharedinformer.Status) bool {
		return s.Reflector.Attempts > 0 && s.Reflector.Failure.Refused()
	})
	require.Contains(t, f.Status().Reflector.Failure.Error(), "notfound: ", "%s", f)

	define(t, client, "widgets", kind)
	create("b")
	create("c")
	f.agree()
	require.Equal(t, counts{added: 4, deleted: 2, updated: f.calls().updated, unknown: f.calls().unknown}, f.calls())
}
