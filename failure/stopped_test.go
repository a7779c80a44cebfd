package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
)

func TestStopped(t *testing.T) {
	other := errors.New("other")
	cause := fmt.Errorf("runnable: %w", errors.Join(other, errors.New("another")))
	ctx, cancel := context.WithCancelCause(t.Context())
	require.False(t, failure.Stopped(ctx, context.Canceled), "ctx is not done")
	cancel(cause)
	for err, want := range map[error]bool{
		context.Canceled:                            true,
		cause:                                       true,
		fmt.Errorf("waiting: %w", cause):            true,
		errors.Join(context.Canceled, cause):        true,
		errors.Join(context.Canceled, other):        false,
		fmt.Errorf("flush: %w", errors.Join(other)): false,
		fmt.Errorf("%w, ended by %w", other, cause): true,
		other: false,
	} {
		require.Equal(t, want, failure.Stopped(ctx, err), "%v", err)
	}
}
