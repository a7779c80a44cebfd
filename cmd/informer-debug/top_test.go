package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// A real terminal shows the state of the process. Package top compares the screens themselves.
func TestTopInATerminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err, "apt-get install tmux")
		}
		t.Skip("needs tmux: apt-get install tmux")
	}
	program, err := os.Executable()
	require.NoError(t, err)
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	socket := filepath.Join(t.TempDir(), "tmux")
	tmux := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "tmux", append([]string{"-S", socket, "-f", os.DevNull}, args...)...)
		cmd.Env = append(os.Environ(), "TERM=xterm")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "tmux %v: %s", args, out)
		return string(out)
	}
	// The shell stays after top has ended, and shows its exit code.
	tmux("new-session", "-d", "-x", "80", "-y", "24", asProgram+"=1 "+program+" top pods,cm -A "+server+"; echo left $?; cat")
	defer tmux("kill-server")
	shows := func(text string) {
		t.Helper()
		screen := ""
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if screen = tmux("capture-pane", "-p"); strings.Contains(screen, text) {
				return
			}
		}
		require.Contains(t, screen, text)
	}
	shows("> pods        Watching        3")
	shows("  configmaps  Watching        0")
	tmux("send-keys", "Enter", "2")
	shows("> bank       api-1")
	tmux("send-keys", "/", "c", "a", "r", "Enter")
	shows("> shop       cart-1")
	tmux("resize-window", "-x", "120", "-y", "30")
	tmux("send-keys", "Enter")
	shows("apparently nothing is reconciled")
	tmux("send-keys", "2")
	shows(`"app": "cart"`)
	tmux("send-keys", "q")
	shows("left 0")
}

func TestTopNeedsATerminal(t *testing.T) {
	r := invoke(t, "top", "pods", "--attach=http://localhost:1")
	require.Equal(t, exit.CodeUsage, r.Code)
	require.Contains(t, r.ErrOut, "top requires a terminal")
	r = invoke(t, "top", "--interval=1ms")
	require.Contains(t, r.ErrOut, "--interval must be at least 100ms, got 1ms")
}
