package laws

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

// reusingTeller is a teller that reuses the objects that its caller already has.
type reusingTeller struct{ *teller }

func (reusingTeller) Describe() source.Description {
	return source.Description{Narrows: true, Reuses: true}
}

func (s reusingTeller) List(ctx context.Context, opts source.Request) source.List[object.Head] {
	list := s.teller.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if opts.Known != nil {
				if have, ok := opts.Known(object.KeyOf(item)); ok && version(have) == version(item) {
					item = have
				}
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// The server's data was restored from a backup, and its history diverged: an object may have other content
// at the same version.
func TestL17_ARestoredHistoryMayHaveTheSameVersions(t *testing.T) {
	for name, namespaces := range map[string][]string{"all": nil, "of one namespace": {"shop"}} {
		t.Run(name, func(t *testing.T) {
			s := newTeller(100, podAt("a/1@50"), podAt("b/2@20"), podAt("c/3@90"))
			told(t, s, reusingTeller{s}, sharedinformer.Options{Namespaces: namespaces}, func(t *testing.T, i *sharedinformer.Informer[*corev1.Pod], h *recorder) {
				h.heard()
				same, _ := i.Cache().Get(object.Key{Namespace: "shop", Name: "b"})
				other := podAt("a/1@50")
				other.Labels["history"] = "other"
				s.items, s.rv = []*corev1.Pod{other, podAt("b/2@20")}, 60
				s.tell("bookmark /@55")
				settle(firstBackOff)
				require.Equal(t, []string{"delete c unknown", "update a"}, h.heard())
				held, _ := i.Cache().Get(object.Key{Namespace: "shop", Name: "a"})
				require.Equal(t, "other", held.Labels["history"])
				held, _ = i.Cache().Get(object.Key{Namespace: "shop", Name: "b"})
				require.Same(t, same, held, "nobody needs to hear of what is the same")
				require.Equal(t, "60", i.Cache().RV())
				s.tell("modified a/1@61")
				require.Equal(t, []string{"update a"}, h.heard())
			})
		})
	}
}
