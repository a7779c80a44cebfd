package controllerruntime_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/wire"
)

// sharing makes the caches of a rig share kinds.
func (r *rig) sharing(shards map[client.Object]shard.Scope) {
	r.side.newCache = controllerruntime.Options{Shards: shards}.NewCache
}

// bySlot creates pods in namespaces until each of two slots has three, and returns their sorted
// names.
func (r *rig) bySlot(namespaces ...string) (names [2][]string) {
	for n := 0; len(names[0]) < 3 || len(names[1]) < 3; n++ {
		o, err := r.srv.Put(pod(namespaces[n%len(namespaces)], fmt.Sprintf("p%02d", n), "web"))
		require.NoError(r, err)
		slot := shard.SlotOf(shard.ByUID().Hash(o), 2)
		names[slot] = append(names[slot], o.GetNamespace()+"/"+o.GetName())
	}
	slices.Sort(names[0])
	slices.Sort(names[1])
	return names
}

// A cache holds exactly the objects in its slots, whatever their Go type and namespace.
func TestS05_CacheHoldsOnlyItsShare(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"all":               {},
		"in two namespaces": {DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}},
		"uncopied":          {DefaultUnsafeDisableDeepCopy: new(true)},
	} {
		for _, example := range podForms() {
			t.Run(fmt.Sprintf("%s %T", name, example), func(t *testing.T) {
				on(t, newCache, func(r *rig) {
					names, share := r.bySlot("shop", "bank"), newEstate(1)
					r.sharing(map[client.Object]shard.Scope{example: {Share: share}})
					c := r.running(opts)
					holds := func(want []string) {
						r.Helper()
						settle(time.Second)
						require.Equal(r, want, r.names(c), "typed")
						for _, list := range []client.ObjectList{&metav1.PartialObjectMetadataList{}, &unstructured.UnstructuredList{}} {
							list.GetObjectKind().SetGroupVersionKind(podKind.GroupVersion().WithKind("PodList"))
							require.NoError(r, c.List(r.ctx, list))
							require.Equal(r, want, namesIn(r, list), "%T", list)
						}
					}
					holds(names[1])
					share.set(0, 1)
					holds(slices.Sorted(slices.Values(append(slices.Clone(names[0]), names[1]...))))
					share.set(0)
					holds(names[0])
					var p corev1.Pod
					require.NoError(r, c.Get(r.ctx, keyNamed(names[0][0]), &p))
					require.Error(r, c.Get(r.ctx, keyNamed(names[1][0]), &p))
				})
			})
		}
	}
}

func namesIn(r *rig, list client.ObjectList) (names []string) {
	each := func(o client.Object) { names = append(names, o.GetNamespace()+"/"+o.GetName()) }
	switch list := list.(type) {
	case *metav1.PartialObjectMetadataList:
		for n := range list.Items {
			each(&list.Items[n])
		}
	case *unstructured.UnstructuredList:
		for n := range list.Items {
			each(&list.Items[n])
		}
	default:
		r.Fatalf("a %T", list)
	}
	slices.Sort(names)
	return names
}

func keyNamed(name string) client.ObjectKey {
	var k client.ObjectKey
	k.Namespace, k.Name = name[:4], name[5:] // shop and bank
	return k
}

// incomparable is a share that cannot be a map key.
type incomparable struct {
	shard.Share
	_ []string
}

// Invalid shards are refused when the cache is created.
func TestInvalidShards(t *testing.T) {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(podKind)
	unknown := &metav1.PartialObjectMetadata{}
	unknown.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cart"})
	share := newEstate(0)
	through := cache.Options{DefaultTransform: func(o any) (any, error) { return o, nil }}
	for _, c := range []struct {
		want   string
		shards map[client.Object]shard.Scope
		keep   wire.Fields
		opts   cache.Options
	}{
		{want: "", shards: map[client.Object]shard.Scope{&corev1.Pod{}: {}, &corev1.ConfigMap{}: {Key: shard.ByOwner(), Share: share}}},
		{want: "", shards: map[client.Object]shard.Scope{&corev1.Pod{}: {Key: shard.ByNamespace(), Share: share}}, opts: through},
		{want: "*unstructured.Unstructured", shards: map[client.Object]shard.Scope{&unstructured.Unstructured{}: {Share: share}}},
		{want: "example.com/v1, Kind=Cart: unable to retrieve the complete list of server APIs", shards: map[client.Object]shard.Scope{unknown: {Share: share}}},
		{want: "Pod appears twice", shards: map[client.Object]shard.Scope{&corev1.Pod{}: {Share: share}, raw: {Share: share}}},
		{want: "Kind=Pod: a controllerruntime_test.incomparable is not comparable", shards: map[client.Object]shard.Scope{&corev1.Pod{}: {Share: incomparable{}}}},
		{want: "the share is a nil *controllerruntime.Group", shards: map[client.Object]shard.Scope{&corev1.Pod{}: {Share: (*controllerruntime.Group)(nil)}}},
		{want: "objects go through a transform, which might change what label app reads", shards: map[client.Object]shard.Scope{&corev1.Pod{}: {Key: shard.ByLabel("app"), Share: share}}, opts: through},
		{want: "sharding by label app needs metadata.labels", shards: map[client.Object]shard.Scope{&corev1.Pod{}: {Key: shard.ByLabel("app"), Share: share}}, keep: wire.Without("metadata.labels")},
	} {
		on(t, newCache, func(r *rig) {
			_, err := controllerruntime.Options{Shards: c.shards, Keep: c.keep}.NewCache(r.cfg, c.opts)
			if c.want == "" {
				require.NoError(r, err)
				return
			}
			require.ErrorContains(r, err, c.want)
			require.ErrorContains(r, err, "Options.Shards: ")
		})
	}
}

// A group is the same share, whether passed directly or through its method.
func TestAGroupIsOneShare(t *testing.T) {
	on(t, newCache, func(r *rig) {
		group, err := controllerruntime.NewGroup(r.cfg, membership.Options{Namespace: "shop", Name: "carts"})
		require.NoError(r, err)
		require.ErrorContains(r, group.Ready(nil), "this member is not running", "nobody has added it to a manager")
		r.sharing(map[client.Object]shard.Scope{&corev1.Pod{}: {Share: group}, &corev1.ConfigMap{}: group.Shard(shard.ByOwner())})
		_, err = controllerruntime.Sharded(r.cache(cache.Options{}), reconcile.Func(nil), &corev1.Pod{}, &corev1.ConfigMap{})
		require.NoError(r, err)
	})
}

// A nil group shares nothing.
func TestShardWithoutAGroup(t *testing.T) {
	var none *controllerruntime.Group
	require.True(t, none.Shard(shard.ByOwner()).Everything())
}
