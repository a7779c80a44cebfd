package clientgo_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Reading keys and heads of a packed cache decodes no object.
func TestHeadsAndKeysDecodeNothing(t *testing.T) {
	on(t, stock, func(r *rig) {
		for _, name := range []string{"a", "b", "c"} {
			r.put(pod(name))
		}
		i := clientgo.NewInformerFor(resource[object.Object](r), clientgo.ResourceOptions{
			Indexers: cache.Indexers{"app": byApp, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			Tweak:    func(*metav1.ListOptions) {},
			Store:    sharedinformer.Packed,
		})
		_, ok := clientgo.HeadsOf(i)
		require.False(r, ok, "it has not synced")
		r.run(i)
		opened := func() uint64 {
			s, _ := clientgo.Status(i)
			return s.Packed.Opened
		}
		before := opened()
		x := i.GetIndexer()
		for _, index := range []struct{ name, value string }{{"app", "web"}, {cache.NamespaceIndex, "shop"}} {
			found, err := x.IndexKeys(index.name, index.value)
			require.NoError(r, err)
			require.Equal(r, []string{"shop/a", "shop/b", "shop/c"}, found)
			require.Equal(r, []string{index.value}, x.ListIndexFuncValues(index.name))
		}
		require.Len(r, x.ListKeys(), 3)
		heads, ok := clientgo.HeadsOf(i)
		require.True(r, ok)
		of, err := heads.ByIndex("app", "web")
		require.NoError(r, err)
		require.Len(r, slices.Collect(of), 3)
		_, err = heads.ByIndex("none", "web")
		require.ErrorContains(r, err, "none does not exist")
		head, ok := heads.Get(object.Key{Namespace: "shop", Name: "b"})
		require.True(r, ok)
		require.Equal(r, "web", head.GetLabels()["app"])
		require.Equal(r, before, opened())

		own, err := heads.Copy(head)
		require.NoError(r, err)
		own.(*corev1.Pod).Labels["app"] = "changed"
		shared, err := heads.Open(head)
		require.NoError(r, err)
		require.Equal(r, "web", shared.GetLabels()["app"])
	})
}

func TestHeadsOfAnotherInformer(t *testing.T) {
	on(t, stock, func(r *rig) {
		i := r.pods(0)
		r.run(i)
		_, ok := clientgo.HeadsOf(i)
		require.False(r, ok)
	})
}

// If a source numbers its objects, the object of a head is unchanged from the source.
func TestHeadsOfNumberedObjects(t *testing.T) {
	onAdapted(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		r.run(i)
		heads, ok := clientgo.HeadsOf(i)
		require.True(r, ok)
		for head := range heads.All() {
			for _, get := range []func(object.Head) (object.Object, error){heads.Open, heads.Copy} {
				o, err := get(head)
				require.NoError(r, err)
				require.IsType(r, &corev1.Pod{}, o)
			}
		}
		require.Equal(r, 1, heads.Len())
	})
}
