package sharedinformer

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
)

// inOrder is a source whose lists are sorted by name, as a server's are, and do not say how many items there
// are, as with a selector.
type inOrder struct{ asked }

func (s inOrder) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := s.asked.List(ctx, req)
	return source.List[object.Head]{Meta: list.Meta, Items: func(yield func(object.Head, error) bool) {
		var all []object.Head
		for o := range list.Items {
			all = append(all, o)
		}
		slices.SortFunc(all, func(a, b object.Head) int { return strings.Compare(a.GetName(), b.GetName()) })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}}
}

// If a namespace is removed while the files of others are being written, its file is not replaced by what is
// left of it in the cache, which would be trusted when the namespace comes back, in this process or the next
// (C02, L17).
func TestC02_ANamespaceRemovedDuringASave(t *testing.T) {
	for name, c := range map[string]struct{ before, after []string }{
		"one of several namespaces": {[]string{"a", "b"}, []string{"a"}},
	} {
		for _, store := range []Store{Whole, Packed} {
			t.Run(name+", "+store.String(), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					w.put("a", "x", func(partial) {})
					w.put("b", "y", func(partial) {})
					w.put("b", "z", func(partial) {})
					slow, blocked := make(chan struct{}), make(chan struct{}, 100)
					ask := func() (string, error) {
						blocked <- struct{}{}
						<-slow
						return "c", nil
					}
					i := informerOf(inOrder{asked{traced{part{w}}, ask}}, Options{
						Namespaces: c.before, Store: store, Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Minute}),
					})
					defer runFor(t, i)()
					require.NoError(t, i.WaitForSync(t.Context()))
					<-blocked // the file of the first namespace is being written
					require.NoError(t, i.SetNamespaces(c.after))
					require.NoError(t, i.WaitForSync(t.Context()))
					require.Equal(t, 1, i.Cache().Len())
					close(slow)
					synctest.Wait()
					files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
					require.NoError(t, err)
					for _, path := range files {
						file, err := snapshot.Open(path)
						require.NoError(t, err)
						require.Equal(t, map[string]int{"a": 1, "b": 2}[file.Namespace], file.Objects, "the file of namespace %q", file.Namespace)
					}

					w.put("b", "y", func(o partial) { o.Labels = map[string]string{"new": "yes"} })
					require.NoError(t, i.SetNamespaces(c.before))
					require.NoError(t, i.WaitForSync(t.Context()))
					_, ok := i.Cache().Get(object.Key{Namespace: "b", Name: "z"})
					require.True(t, ok, "z is on the server, and the informer is synced")
					require.Equal(t, 3, i.Cache().Len())
				})
			})
		}
	}
}
