package sharedinformer

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
)

// The failures of a handler are summed up even if it is closed before the next report.
func TestL22_FailuresOfAClosedHandlerAreSummedUp(t *testing.T) {
	const objects = 1000
	var all []podPtr
	for n := range objects {
		all = append(all, podAt(strconv.Itoa(n), "5", nil))
	}
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		i := New[podPtr](having(all...), Options{
			Initial: reflector.List,
			OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
				told.Add(1 + int64(f.Others))
				return failure.Retry
			},
		})
		r := i.AddHandler(HandlerFunc[podPtr](func(context.Context, Event[podPtr]) error { return errors.New("no") }))
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := i.Start(ctx)
		require.NoError(t, err)
		require.NoError(t, i.WaitForSync(ctx))
		r.Close()
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, wait())
		require.EqualValues(t, objects, told.Load())
	})
}
