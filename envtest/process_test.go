//go:build !windows

package envtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// starterVariable makes the test binary start a server and wait to be killed.
const starterVariable = "MILLRACE_ENVTEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterVariable) != "" {
		starter()
	}
	flag.Parse()
	if testing.Short() { // examples cannot skip themselves
		if err := flag.Set("test.skip", "^Example"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// starter prints the PID of the server's process and never returns.
func starter() {
	s, err := Launch(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(starterVariable) == "suspend" {
		if err := s.Suspend(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println(s.proc.cmd.Process.Pid, s.dir)
	select {}
}

// awaitGone waits until no process has this PID.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		require.True(t, time.Now().Before(deadline), "process %d is still there", pid)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	for _, end := range []string{"stop", "kill and stop"} {
		t.Run(end, func(t *testing.T) {
			s := Start(t, Options{})
			proc := s.proc
			pid := proc.cmd.Process.Pid
			require.NoError(t, syscall.Kill(pid, 0))
			if end != "stop" {
				s.Kill()
				require.ErrorContains(t, proc.err, "signal: killed")
				require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
			}
			require.NoError(t, s.Stop())
			require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
			require.NoDirExists(t, s.dir)
			require.NoError(t, s.Stop(), "the second stop")
		})
	}
}

// An open watch must not delay the shutdown.
func TestStopEndsOpenWatches(t *testing.T) {
	s := Start(t, Options{})
	c := newCaller(t, s, s.AdminToken)
	resp := c.open("GET", "/api/v1/pods?watch=true", nil)
	require.Equal(t, 200, resp.StatusCode)
	require.NoError(t, s.Stop())
}

// The server ends however the starter dies, even if it is suspended and the system
// supports that.
func TestServerEndsWithItsStarter(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	for _, as := range []string{"it is", "suspend"} {
		t.Run(as, func(t *testing.T) {
			if as == "suspend" && runtime.GOOS != "linux" {
				t.Skip("nobody wakes the server")
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), starterVariable+"="+as)
			cmd.Stderr = os.Stderr
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var pid int
			var dir string
			_, err = fmt.Fscan(stdout, &pid, &dir)
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			require.NoError(t, syscall.Kill(pid, 0))

			require.NoError(t, cmd.Process.Kill())
			require.ErrorContains(t, cmd.Wait(), "killed")
			awaitGone(t, pid)
		})
	}
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := Launch(t.Context(), Options{Flags: []string{"--no-such-flag"}})
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOneDirectoryHasOneServer(t *testing.T) {
	first := Start(t, Options{Dir: t.TempDir()})
	c := newCaller(t, first, first.AdminToken)
	_, err := Launch(t.Context(), Options{Dir: first.dir})
	require.ErrorContains(t, err, fmt.Sprintf("another server is running in %s, process %d: ", first.dir, first.proc.cmd.Process.Pid))
	c.call(201, "POST", configMaps, configMap("still-works"))

	// API servers without their own etcd are not kept apart by the store's lock, but could
	// mix up their keys.
	etcd := Start(t, Options{OnlyEtcd: true})
	dir := t.TempDir()
	servers, errs := make([]*Server, 3), make([]error, 3)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() { servers[n], errs[n] = Launch(t.Context(), Options{Dir: dir, Etcd: etcd.URL}) })
	}
	wg.Wait()
	started := 0
	for n, err := range errs {
		if err != nil {
			require.ErrorContains(t, err, "another server is running in "+dir)
			continue
		}
		started++
		newCaller(t, servers[n], servers[n].AdminToken).call(200, "GET", configMaps, nil)
		require.NoError(t, servers[n].Stop())
	}
	require.Equal(t, 1, started, "%v", errs)
}

// A kept directory restores the server with its port, CA, tokens and data, and the
// address of its webhooks.
func TestADirectoryIsAServer(t *testing.T) {
	dir := t.TempDir()
	first := Start(t, Options{Dir: dir})
	newCaller(t, first, first.AdminToken).call(201, "POST", configMaps, configMap("kept"))
	hook, err := first.Webhook()
	require.NoError(t, err)
	require.NoError(t, first.Stop())

	// A failed start changes none of that.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	_, err = Launch(t.Context(), Options{Dir: dir, Port: port})
	require.ErrorContains(t, err, fmt.Sprintf("envtest: start the API server: port %d: ", port))
	require.ErrorContains(t, err, "address already in use: choose another")

	second := Start(t, Options{Dir: dir})
	require.Equal(t, first.URL, second.URL)
	newCaller(t, first, first.AdminToken).call(200, "GET", configMaps+"/kept", nil)
	again, err := second.Webhook()
	require.NoError(t, err)
	require.Equal(t, hook, again, "what is installed names it")
	require.NoError(t, second.Stop())

	other, err := net.Listen("tcp", strings.TrimPrefix(first.URL, "https://"))
	require.NoError(t, err)
	defer other.Close()
	_, err = Launch(t.Context(), Options{Dir: dir})
	require.ErrorContains(t, err, "which the server in "+dir+" used before: ")
}

func TestLaunchHonoursItsContext(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	_, err := Build(t.Context())
	require.NoError(t, err)
	dir := t.TempDir()
	gone := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() { // the log exists when the process does
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "server.log")); err == nil {
				cancel(gone)
			}
		}
	}()
	_, err = Launch(ctx, Options{Dir: dir})
	require.ErrorIs(t, err, gone)
}

// A response that arrives after its caller has given up must not be taken for the next
// one.
func TestLateAnswerIsIgnored(t *testing.T) {
	p := &process{lines: make(chan []byte, 2)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var a answer
	require.ErrorIs(t, p.receive(ctx, &a), context.Canceled)

	p.lines <- []byte(`{"revision": 1}`)
	p.lines <- []byte(`{"revision": 2}`)
	require.NoError(t, p.receive(t.Context(), &a))
	require.EqualValues(t, 2, a.Revision)

	p.lines <- []byte("no JSON")
	require.ErrorContains(t, p.receive(t.Context(), &a), `wrote "no JSON"`)
	p.lines <- []byte(`{"revision": 3}`)
	require.NoError(t, p.receive(t.Context(), &a))
	require.EqualValues(t, 3, a.Revision)
}

func TestLogTail(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	require.Contains(t, logTail(name), "no such file")
	for _, lines := range []int{1, tailLines, tailLines + 1, 5000} {
		var text strings.Builder
		for i := range lines {
			fmt.Fprintf(&text, "line %d\n", i)
		}
		require.NoError(t, os.WriteFile(name, []byte(text.String()), 0o600))
		got := strings.Split(logTail(name), "\n")
		require.Len(t, got, min(lines, tailLines))
		require.Equal(t, fmt.Sprintf("line %d", lines-1), got[len(got)-1])
	}
}

// The message of a crash may be far from the end of the log, and the output of earlier
// processes must be ignored.
func TestAProcessIsQuotedFromItsCause(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	before := "panic: long ago\n"
	stacks := strings.Repeat("goroutine 1 [running]:\n", tailBytes)
	require.NoError(t, os.WriteFile(name, []byte(before+"listening\npanic: no space left\n"+stacks), 0o600))
	p := &process{log: name, began: int64(len(before))}
	require.Contains(t, p.said(), "its log contains:\npanic: no space left\n")
	require.Less(t, len(p.said()), tailBytes)
	require.NoError(t, os.WriteFile(name, []byte(before+"listening\nunknown flag\n"), 0o600))
	require.Equal(t, "its log ends with:\nlistening\nunknown flag", p.said())
	require.NoError(t, os.WriteFile(name, []byte(before), 0o600))
	require.Equal(t, "its log "+name+" is empty", p.said())
}
