package serving_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/serving"
)

// started runs a server and returns when it serves. stop ends the server and returns
// Run's error.
func started(t *testing.T, s *serving.Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.Check() == nil }, 10*time.Second, time.Millisecond)
	return func() error { cancel(); return <-ended }
}

func TestAServerMayRunAgain(t *testing.T) {
	s, err := serving.New(serving.Options{Name: "x", Address: "127.0.0.1:0", Handler: hello})
	require.NoError(t, err)
	for range 2 {
		stop := started(t, s)
		resp, err := http.Get("http://" + s.Addr().String())
		require.NoError(t, err)
		resp.Body.Close()
		require.ErrorIs(t, s.Run(t.Context()), serving.ErrRunning)
		require.NoError(t, s.Check(), "the other Run goes on")
		require.NoError(t, stop())
		require.Error(t, s.Check())
	}
	require.NoError(t, s.Listen())
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Nil(t, s.Addr())
}

func TestAServerWithAListenerRunsOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := serving.New(serving.Options{Name: "x", Listener: l, Handler: hello})
	require.NoError(t, err)
	require.NoError(t, started(t, s)())
	require.ErrorContains(t, s.Run(t.Context()), "x server: its Listener was closed by an earlier Run: use Address")
	require.NoError(t, s.Close())
}

// failingListener accepts connections until its pipe is closed, and then fails.
type failingListener struct {
	pipe
	fail func() error
}

func (l failingListener) Accept() (net.Conn, error) {
	if c, ok := <-l.pipe; ok {
		return c, nil
	}
	return nil, l.fail()
}

func (failingListener) Close() error { return nil }

// After Run has returned, nothing is served, whatever the Listener did.
func TestServerStopsWhenItsListenerFails(t *testing.T) {
	for want, fail := range map[string]func() error{
		"x server: the port is gone":                       func() error { return errors.New("the port is gone") },
		"x server: its Listener panicked: boom":            func() error { panic("boom") },
		"x server: its Listener called runtime.Goexit, as": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := failingListener{make(pipe), fail}
				s, err := serving.New(serving.Options{Name: "x", Listener: l, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(time.Second)
				})})
				require.NoError(t, err)
				ended := make(chan error, 1)
				go func() { ended <- s.Run(t.Context()) }()
				idle, busy := l.dial(), l.dial()
				defer idle.Close()
				defer busy.Close()
				get := func(conn net.Conn) error {
					if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
						return err
					}
					_, err := http.ReadResponse(bufio.NewReader(conn), nil)
					return err
				}
				require.NoError(t, get(idle))
				answered := make(chan error, 1)
				go func() { answered <- get(busy) }()
				synctest.Wait()
				close(l.pipe)
				require.ErrorContains(t, <-ended, want)
				require.NoError(t, <-answered, "it was in progress")
				require.Error(t, s.Check())
				require.Error(t, get(idle), "Run has returned, and the server answers")
			})
		})
	}
}

func TestHandlerThatCallsGoexitIsLogged(t *testing.T) {
	serve(t, func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, func(t *testing.T, p pipe, log *bytes.Buffer) {
		conn := p.dial()
		defer conn.Close()
		require.Zero(t, broken(t, conn, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.Contains(t, log.String(), `msg="a handler called runtime.Goexit, as testing.T.FailNow does" server=test path=/x`)
	})
}

func TestAccessWithNilArgumentsPanicsAtTheCall(t *testing.T) {
	defer func() { require.Contains(t, recover(), "serving/again_test.go:") }()
	serving.Access(nil, nil, nil)
}
