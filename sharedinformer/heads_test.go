package sharedinformer

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// A handler of heads that wants no old state gets none.
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
