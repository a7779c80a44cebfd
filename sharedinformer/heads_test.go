package sharedinformer

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// A handler of heads with WithoutOld receives no old state.
func TestAHeadHandlerWithoutOld(t *testing.T) {
	for _, store := range []Store{Whole, Packed} {
		synctest.Test(t, func(t *testing.T) {
			from := newFixed(things(1)...)
			i := informerOf(from, Options{Store: store})
			var last Event[object.Head]
			i.AddHeadHandler(HandlerFunc[object.Head](func(_ context.Context, e Event[object.Head]) error { last = e; return nil }), HandlerOptions{WithoutOld: true})
			defer runFor(t, i)()
			require.NoError(t, i.WaitForSync(t.Context()))
			from.change("t0", 100, 20)
			synctest.Wait()
			require.Equal(t, Update, last.Type)
			require.Nil(t, last.Old, store)
		})
	}
}

// A handler that modifies a head is detected, although no object is opened. Parts shared by
// siblings are reported once.
func TestL16_ChangedHeadIsReported(t *testing.T) {
	for name, change := range map[string]func(object.Head){
		".Labels[app]":                func(o object.Head) { o.GetLabels()["app"] = "mine" },
		".OwnerReferences[0].Name":    func(o object.Head) { o.GetOwnerReferences()[0].Name = "mine" },
		".DeletionTimestamp.Time.ext": func(o object.Head) { o.GetDeletionTimestamp().Time = o.GetDeletionTimestamp().Add(1e9) },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, of Store) {
				synctest.Test(t, func(t *testing.T) {
					w := newTwin(t, of)
					w.AddHeadHandler(HandlerFunc[object.Head](func(_ context.Context, e Event[object.Head]) error {
						if e.Object.GetName() == "1" {
							change(e.Object)
						}
						return nil
					}), HandlerOptions{Name: "culprit"})
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- w.Run(ctx) }()
					synctest.Wait()
					for n := range 3 {
						p := podOf(n, 2)
						p.Labels = map[string]string{"app": "web"}
						p.OwnerReferences = []metav1.OwnerReference{{Name: "set"}}
						p.DeletionTimestamp = new(metav1.Unix(5, 0))
						w.apply([]deltafifo.Delta{{Type: deltafifo.Added, Key: object.KeyOf(p), Object: p}})
						synctest.Wait()
					}
					f := w.Status().Failure
					cancel()
					require.NoError(t, <-ended)
					require.NotNil(t, f)
					require.ErrorContains(t, f, "*v1.Pod in the cache was changed at")
					require.ErrorContains(t, f, name)
					require.Contains(t, f.Handler, "culprit")
				})
			})
		})
	}
}
