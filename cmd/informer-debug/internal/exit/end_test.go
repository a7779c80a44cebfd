package exit

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatGoesOnMayBeEnded(t *testing.T) {
	require.NoError(t, UnlessLeft(&Error{Err: ErrInterrupted}))
	require.Error(t, UnlessLeft(errors.New("another")))
}
