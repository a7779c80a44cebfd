package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// terminalOf runs a command in a terminal. It returns a function that controls the terminal (see tmux(1)), and one
// that waits until its screen contains a text. The shell stays after the command has ended, and shows its exit code.
func terminalOf(t *testing.T, command string) (tmux func(args ...string) string, shows func(text string)) {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err, "apt-get install tmux")
		}
		t.Skip("needs tmux: apt-get install tmux")
	}
	program, err := os.Executable()
	require.NoError(t, err)
	socket := filepath.Join(t.TempDir(), "tmux")
	tmux = func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "tmux", append([]string{"-S", socket, "-f", os.DevNull}, args...)...)
		cmd.Env = append(os.Environ(), "TERM=xterm")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "tmux %v: %s", args, out)
		return string(out)
	}
	tmux("new-session", "-d", "-x", "80", "-y", "24", asProgram+"=1 "+program+" "+command+"; echo left $?; cat")
	t.Cleanup(func() { tmux("kill-server") })
	return tmux, func(text string) {
		t.Helper()
		screen := ""
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if screen = tmux("capture-pane", "-p"); strings.Contains(screen, text) {
				return
			}
		}
		require.Contains(t, screen, text)
	}
}

// A real terminal shows the state of the process. Package top compares the screens themselves.
func TestTopInATerminal(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	tmux, shows := terminalOf(t, "top pods,cm -A "+server)
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

// The server's warnings are not written over the screen.
func TestTopKeepsItsScreen(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	to, err := url.Parse(strings.TrimPrefix(server, "--server="))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	var shown, warned atomic.Bool
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if shown.Load() {
			w.Header().Set("Warning", `299 - "v1 Pods is deprecated"`)
			warned.Store(true)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(at.CloseClientConnections)
	said := filepath.Join(t.TempDir(), "stderr")
	tmux, shows := terminalOf(t, "top pods -A --server="+at.URL+" 2>"+said)
	shows(" pods      Watching        3")
	shown.Store(true)
	at.CloseClientConnections()
	require.Eventually(t, warned.Load, 30*time.Second, 10*time.Millisecond)
	shows(" pods      Watching        3")
	tmux("send-keys", "q")
	shows("left 0")
	text, err := os.ReadFile(said)
	require.NoError(t, err)
	require.Empty(t, string(text))
}

func TestTopNeedsATerminal(t *testing.T) {
	r := invoke(t, "top", "pods", "--attach=http://localhost:1")
	require.Equal(t, exit.CodeUsage, r.Code)
	require.Contains(t, r.ErrOut, "top requires a terminal")
	r = invoke(t, "top", "--interval=1ms")
	require.Contains(t, r.ErrOut, "--interval must be at least 100ms, got 1ms")
}
