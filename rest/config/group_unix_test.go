//go:build unix

package config

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If a plugin script hangs, the reason is often a program it called. That child must
// end with the plugin.
func TestExecIsKilledWithItsChildren(t *testing.T) {
	if stdinIsTerminal() {
		t.Skip("there a plugin is killed alone: run go test with another standard input")
	}
	alive := filepath.Join(t.TempDir(), "alive")
	require.NoError(t, syscall.Mkfifo(alive, 0o600))
	s := newExecSource(&Config{Host: "https://127.0.0.1:1", Exec: &Exec{
		Command: script(t, `exec 3>"$ALIVE"; (sleep 10; echo it lives on >&3) & wait`),
		Env:     []string{"ALIVE=" + alive}, APIVersion: execV1beta1}})
	s.abandoned = time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.get(ctx)
		ended <- err
	}()
	f, err := os.Open(alive) // returns when the script has opened it
	require.NoError(t, err)
	defer f.Close()
	stop := errors.New("enough")
	cancel(stop)
	require.ErrorIs(t, <-ended, stop)
	said, err := io.ReadAll(f) // returns when no process has it open
	require.NoError(t, err)
	require.Empty(t, string(said))
}
