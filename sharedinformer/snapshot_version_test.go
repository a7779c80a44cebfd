package sharedinformer

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/wire"
)

// A change that waits for the cache is not in a file, and neither is its version: whoever
// begins there would never hear of it.
func TestC02_AFileIsAsOldAsWhatIsInIt(t *testing.T) {
	from := &fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) { return []podPtr{podAt("x", "1", nil)}, "1" }}
	i := New[podPtr](from, Options{Initial: reflector.List})
	ctx, stop := context.WithCancel(t.Context())
	wait, err := i.Start(ctx)
	require.NoError(t, err)
	require.NoError(t, i.WaitForSync(ctx))
	f := i.core.(*core).feeds.all()[0]
	early := 0
	for n := 2; n < 50; n++ {
		rv := strconv.Itoa(n)
		i.core.(*core).join.Lock()
		from.events <- wire.Event[object.Head]{Type: watch.Modified, Object: podAt("x", rv, nil)}
		require.Eventually(t, func() bool { return f.reflector.Status().RV == rv }, time.Minute, 100*time.Microsecond)
		i.core.(*core).join.Unlock() // for which the change waits as well
		objects, upTo := i.core.(*core).contentOf(f)
		require.Equal(t, objects.At(0).GetResourceVersion(), upTo)
		if upTo != rv {
			early++
		}
		require.NoError(t, i.WaitForRV(ctx, rv))
	}
	require.NotZero(t, early, "the change was in the cache each time")
	stop()
	require.NoError(t, wait())
}
