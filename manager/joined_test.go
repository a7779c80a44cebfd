package manager_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/manager"
)

// A failure that a runnable joins with its context's error is reported.
func TestAnErrorJoinedWithTheContextsIsReported(t *testing.T) {
	lost := errors.New("the last batch could not be written")
	for _, fails := range []error{nil, lost} {
		inBubble(t, server{}, func(r *rig) {
			m := r.manager(options{})
			require.NoError(t, m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				return errors.Join(ctx.Err(), fails)
			})))
			running := r.start(m)
			settle(time.Second)
			if err := running.end(); fails == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, lost)
			}
		})
	}
}
