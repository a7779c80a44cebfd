package sharedinformer

import (
	"context"
	gc "runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// A handler that panics in its last call for an object, or ends its goroutine, does not keep the
// object alive.
func TestPanickingCallKeepsNothing(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("no") }, "goexit": gc.Goexit, "returns": func() {}} {
		for closing, closes := range map[string]bool{"and goes on": false, "and closes": true} {
			t.Run(name+" "+closing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newTwinWith(t, Options{Store: Whole, Initial: reflector.List})
					var told *Registration
					told = w.AddHandlerWith(HandlerFunc[*corev1.Pod](func(_ context.Context, e Event[*corev1.Pod]) error {
						if e.Type == Delete {
							if closes {
								told.Close()
							}
							end()
						}
						return nil
					}), HandlerOptions{WithoutOld: true})
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- w.Run(ctx) }()
					synctest.Wait()
					at := func() weak.Pointer[corev1.Pod] {
						p := podOf(1, 2)
						w.apply([]deltafifo.Delta{{Type: deltafifo.Added, Key: object.KeyOf(p), Object: p}})
						p = podOf(1, 3)
						w.apply([]deltafifo.Delta{{Type: deltafifo.Deleted, Key: object.KeyOf(p), Object: p}})
						return weak.Make(p)
					}()
					synctest.Wait()
					for range 4 {
						gc.GC()
					}
					require.Nil(t, at.Value())
					cancel()
					require.NoError(t, <-ended)
					gc.KeepAlive(told)
					gc.KeepAlive(w)
				})
			})
		}
	}
}
