package exit

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestInterruptingAContinuousCommandIsNotAnError(t *testing.T) {
	require.NoError(t, UnlessLeft(&Error{Err: ErrInterrupted}))
	require.Error(t, UnlessLeft(errors.New("another")))
}

func TestArgs(t *testing.T) {
	cmd := &cobra.Command{Use: "why NAME"}
	require.NoError(t, Args(1, 2)(cmd, []string{"a"}))
	require.NoError(t, Args(1, -1)(cmd, []string{"a", "b", "c"}))
	require.EqualError(t, Args(1, 2)(cmd, nil), "0 arguments: want why NAME")
	require.Equal(t, CodeUsage, CodeOf(Args(0, 0)(cmd, []string{"a"})))
}
