//go:build unix

package recording_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/recording"
)

// Opening something not a regular file fails without blocking.
func TestPipeIsNotARecording(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, dir, "/dev/null"} {
		_, err := recording.Open(path)
		require.ErrorContains(t, err, "not a regular file", path)
		_, err = recording.Create(path, recording.Options{})
		require.ErrorContains(t, err, "not a regular file", path)
	}
}
