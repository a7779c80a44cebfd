package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatGoesOnMayBeEnded(t *testing.T) {
	require.NoError(t, unlessLeft(&exitError{err: errInterrupted}))
	require.Error(t, unlessLeft(errors.New("another")))
}
