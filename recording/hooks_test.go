package recording

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// hook is a log handler that calls a function.
type hook struct {
	slog.Handler
	do func()
}

func (h hook) Handle(context.Context, slog.Record) error { h.do(); return nil }

// A logger may ask for the recorder's status. If it panics, exits or hangs, it neither
// ends the program nor blocks it.
func TestMisbehavingLogger(t *testing.T) {
	for name, does := range map[string]func(r *Recorder){
		"asks": func(r *Recorder) { _ = r.Status() }, "panics": func(*Recorder) { panic("logger") }, "exits": func(*Recorder) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *Recorder
				calls := 0
				log := slog.New(hook{slog.NewTextHandler(io.Discard, nil), func() { calls++; does(r) }})
				r, err := Create(filepath.Join(t.TempDir(), "test.recording"), Options{Logger: log})
				require.NoError(t, err)
				synctest.Wait()
				r.breakFile()
				told(t, r.RoundTripper(serve(200, part{time.Second, "one", nil}), nil), get(t, pods))
				time.Sleep(time.Minute)
				require.ErrorContains(t, r.Close(), "file already closed")
				require.Equal(t, 1, calls)
			})
		})
	}
}

// A failing Blank ends the recording, since it may leave credentials. The client
// continues.
func TestMisbehavingBlank(t *testing.T) {
	for name, c := range map[string]struct {
		does func() int
		want string
	}{
		"panics": {func() int { panic("blank") }, "panicked: blank"},
		"exits":  {func() int { runtime.Goexit(); return 0 }, "Goexit"},
		"lies":   {func() int { return 1000 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "test.recording")
				r, err := Create(path, Options{})
				require.NoError(t, err)
				blank := func(*http.Request) Blank {
					return func(body []byte, _ bool) int {
						if !bytes.HasPrefix(body, []byte("secret")) {
							return 0
						}
						return c.does()
					}
				}
				client := r.RoundTripper(serve(200, part{time.Second, "secret", nil}, part{0, "more", nil}), blank)
				require.Len(t, told(t, client, get(t, pods)), 4)
				err = r.Close()
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, path)
				f := opened(t, path)
				require.ErrorIs(t, f.Damage, ErrCutOff)
				for _, q := range f.Requests {
					require.Zero(t, q.Bytes)
				}
			})
		})
	}
}

// If it panics when the response arrives, the client still gets the response.
func TestABlankThatPanicsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			client := r.RoundTripper(serve(200, part{0, "secret", nil}), func(*http.Request) Blank { panic("blank") })
			require.Equal(t, []string{"0s 200 OK application/json", "0s secret", "0s EOF"}, told(t, client, get(t, pods)))
		})
		require.Zero(t, f.Requests[0].Bytes)
		require.ErrorContains(t, f.Replay(ReplayOptions{}).fails(t, pods), "panicked: blank")
	})
}

func (r *Replay) fails(t *testing.T, url string) error {
	t.Helper()
	_, err := r.RoundTrip(get(t, url))
	return err
}

// http.Client gets the invalid result of a RoundTripper unchanged.
func TestARoundTripperThatReturnsNothing(t *testing.T) {
	for name, answers := range map[string]func() *http.Response{
		"no body":     func() *http.Response { return &http.Response{StatusCode: 200, Header: http.Header{}} },
		"no response": func() *http.Response { return nil },
		"no status":   func() *http.Response { return &http.Response{Body: io.NopCloser(bytes.NewReader([]byte("one")))} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := recorded(t, Options{}, func(r *Recorder) {
					client := &http.Client{Transport: r.RoundTripper(roundTripper(func(*http.Request) (*http.Response, error) { return answers(), nil }), nil)}
					resp, err := client.Do(get(t, pods))
					if answers() == nil {
						require.ErrorContains(t, err, "nil *Response")
						return
					}
					require.NoError(t, err)
					_, err = io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				})
				require.NoError(t, f.Damage)
				require.True(t, f.Requests[0].Whole)
			})
		})
	}
}

// readerFunc is a function that implements io.Reader.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A Recorder that was not made by Create records nothing and reports that.
func TestTheZeroRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		for range 2 {
			require.Len(t, told(t, r.RoundTripper(serve(200, part{0, "one", nil}), nil), get(t, pods)), 3)
			require.ErrorContains(t, r.Close(), "create it with Create")
		}
		<-r.Done()
		require.Zero(t, r.Status())
	})
}

// untilClosed is a body like net/http's: Close interrupts the Read in progress, which returns the bytes that
// had arrived.
type untilClosed chan struct{}

func (b untilClosed) Read(p []byte) (int, error) {
	<-b
	return copy(p, `{"type":"ADDED"}`), io.ErrUnexpectedEOF
}

func (b untilClosed) Close() error { close(b); return nil }

// A body may be closed while another goroutine reads it, as client-go does to stop a watch. The recording stays
// readable, although that read still returns bytes.
func TestABodyClosedWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			tap := r.RoundTripper(roundTripper(func(req *http.Request) (*http.Response, error) {
				return response(req, Answer{Status: 200, ContentType: "application/json"}, make(untilClosed)), nil
			}), nil)
			resp, err := tap.RoundTrip(get(t, watch))
			require.NoError(t, err)
			read := make(chan struct{})
			go func() {
				defer close(read)
				_, _ = io.ReadAll(resp.Body)
			}()
			synctest.Wait()
			require.NoError(t, resp.Body.Close())
			<-read
			time.Sleep(time.Second)
			told(t, r.RoundTripper(serve(200, part{0, "later", nil}), nil), get(t, pods))
		})
		require.NoError(t, f.Damage)
		require.Len(t, f.Requests, 2)
	})
}
