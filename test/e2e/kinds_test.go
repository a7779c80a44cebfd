package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// TestKinds follows objects of each kind from before the start of an informer until after its
// restart.
func TestKinds(t *testing.T) {
	client, ns := admin(t)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{"e2e": ns}}
	}
	t.Run("Pods", func(t *testing.T) {
		live(t, rest.ResourceFor[*corev1.Pod](client).Namespace(ns), nil, func(name string) *corev1.Pod {
			return newPod(name)
		})
	})
	t.Run("ConfigMaps", func(t *testing.T) {
		live(t, rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns), nil, func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{"k": name}, BinaryData: map[string][]byte{"b": {0, 255}}}
		})
	})
	t.Run("Leases", func(t *testing.T) {
		live(t, rest.ResourceFor[*coordinationv1.Lease](client).Namespace(ns), nil, func(name string) *coordinationv1.Lease {
			now := metav1.NowMicro()
			return &coordinationv1.Lease{ObjectMeta: meta(name), Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now}}
		})
	})
	mine := labels.SelectorFromSet(labels.Set{"e2e": ns})
	t.Run("Nodes", func(t *testing.T) {
		live(t, rest.ResourceFor[*corev1.Node](client), mine, func(name string) *corev1.Node {
			n := &corev1.Node{ObjectMeta: meta(ns + "-" + name)}
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.2.3"}}
			return n
		})
	})
	t.Run("Namespaces", func(t *testing.T) {
		// No controller finishes the deletion of a namespace here, so namespaces are only added.
		f := follow(t, rest.ResourceFor[*corev1.Namespace](client), sharedinformer.Options{})
		f.sync()
		_, ok := f.Cache().Get(object.Key{Name: "kube-system"})
		require.True(t, ok)
		name := newNamespace(t, client)
		f.await("the new namespace", func(known map[object.Key]*corev1.Namespace) bool {
			return known[object.Key{Name: name}] != nil
		})
	})
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// TestCustomResources follows the objects of a definition in three forms.
func TestCustomResources(t *testing.T) {
	client, ns := admin(t)
	define(t, client, "gadgets", gadgetKind)
	gadgets := rest.ResourceFor[*Gadget](client).Namespace(ns)
	made := func(name string) *Gadget {
		return &Gadget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: GadgetSpec{Size: 1, Parts: map[string]string{"a": name}}}
	}
	asMetadata := follow(t, rest.ResourceForKind[*metav1.PartialObjectMetadata](client, gadgetKind).Namespace(ns), sharedinformer.Options{})
	asObject := follow(t, rest.ResourceForKind[object.Object](client, gadgetKind).Namespace(ns), sharedinformer.Options{})
	live(t, gadgets, nil, made)
	live(t, rest.ResourceForKind[*unstructured.Unstructured](client, gadgetKind).Namespace(ns), nil, func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(2), "odd": []any{1.5, "x", nil}}}}
		u.SetName("u-" + name)
		return u
	})
	g, err := gadgets.Get(t.Context(), object.Key{Name: "c"}, metav1.GetOptions{})
	require.NoError(t, err)
	g.Status.Seen = 7
	_, err = gadgets.Subresource("status").Update(t.Context(), g, metav1.UpdateOptions{})
	require.NoError(t, err)
	asMetadata.agree()
	asObject.agree()
	o, ok := asObject.Cache().Get(object.Key{Namespace: ns, Name: "c"})
	require.True(t, ok)
	require.Equal(t, int64(7), o.(*Gadget).Status.Seen)
}

// live creates, changes and deletes objects before an informer starts, while it runs and while it
// is stopped.
func live[T object.Object](t *testing.T, r *rest.Resource[T], selector labels.Selector, newObject func(name string) T) {
	t.Helper()
	create := func(names ...string) {
		t.Helper()
		for _, name := range names {
			_, err := r.Create(t.Context(), newObject(name), metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	key := func(name string) object.Key { return object.Key{Name: newObject(name).GetName()} }
	change := func(names ...string) {
		t.Helper()
		for _, name := range names {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"changed":%q}}}`, name)
			_, err := r.Patch(t.Context(), key(name), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			require.NoError(t, err)
		}
	}
	remove := func(names ...string) {
		t.Helper()
		for _, name := range names {
			require.NoError(t, r.Delete(t.Context(), key(name), metav1.DeleteOptions{}))
		}
	}

	create("a", "b")
	opts := sharedinformer.Options{}
	opts.LabelSelector = selector
	f := follow(t, r, opts)
	f.sync()
	before := f.calls()
	require.GreaterOrEqual(t, before.initial, 2)
	require.Equal(t, before.initial, before.added)
	create("c")
	change("a")
	remove("b")
	f.agree()
	after := f.calls()
	require.Equal(t, before.added+1, after.added)
	require.Equal(t, 1, after.deleted)
	require.Zero(t, after.unknown)

	f.stop()
	change("c")
	remove("a")
	create("b", "d") // b is a new object
	f.start()
	f.agree()
	require.Equal(t, after.added+2, f.calls().added)
	require.Equal(t, 2, f.calls().deleted)
	require.Equal(t, uint64(1), f.Status().Reflector.Lists, "it resumed: %s", f)
}
