package sharedinformer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// fedIn is a fed that can be narrowed: all that it has is in namespace a. It takes back
// what is known, as package rest does.
type fedIn struct {
	*fed
	known wire.Known[podPtr]
}

func (s fedIn) In(string) (source.ListerWatcher[podPtr], error) { return s, nil }

func (s fedIn) Reusing(known wire.Known[podPtr]) source.ListerWatcher[podPtr] {
	return fedIn{s.fed, known}
}

func (s fedIn) List(ctx context.Context, opts metav1.ListOptions) source.List[podPtr] {
	list := s.fed.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(podPtr, error) bool) {
		for item, err := range items {
			if have, ok := s.known(object.KeyOf(item)); ok && have.UID == item.UID && have.ResourceVersion == item.ResourceVersion {
				item = have
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// A server was restored from a backup: the same UID and version stand for another content.
// The informer gets other namespaces before it has noticed. What the cache has is of the
// history that is gone, and is not taken for known. What is equal stays the same object.
func TestL17_AHistoryWentBackBehindASetOfNamespaces(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			color, rv := "red", "20"
			from := fedIn{fed: &fed{events: make(chan wire.Event[podPtr]), list: func() ([]podPtr, string) {
				mu.Lock()
				defer mu.Unlock()
				return []podPtr{podAt("x", "15", map[string]string{"color": color}), podAt("y", "14", nil)}, rv
			}}}
			var heard []string
			i := New[podPtr](from, Options{Store: of, Initial: reflector.List})
			i.AddHandler(HandlerFunc[podPtr](func(_ context.Context, e Event[podPtr]) error {
				heard = append(heard, e.Type.String()+" "+e.Object.Name+" "+e.Object.Labels["color"])
				return nil
			}))
			ctx, stop := context.WithCancel(t.Context())
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			synctest.Wait()
			mu.Lock()
			color, rv = "blue", "16" // the data of version 14 came back, and x was changed again
			mu.Unlock()
			require.NoError(t, i.SetNamespaces([]string{"a"}))
			time.Sleep(time.Hour)
			synctest.Wait()
			o, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "x"})
			require.True(t, ok)
			require.Equal(t, "blue", o.Labels["color"])
			stop()
			require.NoError(t, wait())
			require.Equal(t, []string{"add x red", "add y ", "update x blue"}, heard)
		})
	})
}
