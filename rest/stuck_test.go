package rest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// frozen dials a server that accepts connections and never responds.
func frozen(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		go io.Copy(io.Discard, far)
		return near, nil
	}
}

func TestStuckInTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, &config.Config{Host: "https://api.example.com", TLS: config.TLS{Insecure: true}, Dial: frozen(t)})
		defer c.CloseIdleConnections()
		pods := ResourceFor[*corev1.Pod](c)
		_, err := pods.Get(t.Context(), key, metav1.GetOptions{})
		require.EqualError(t, err, "get pods default/a: no answer from api.example.com for 10s (TLS handshake): net/http: TLS handshake timeout")

		// The caller can see the state during the wait, and its own timeout is
		// distinguishable.
		progress := new(source.Progress)
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(source.WithProgress(t.Context(), progress), 5*time.Second, enough)
		defer cancel()
		go func() {
			time.Sleep(4 * time.Second)
			require.EqualError(t, progress.Waiting(nil), "no answer from api.example.com for 4s (TLS handshake)")
		}()
		_, err = pods.Watch(ctx, metav1.ListOptions{})
		stuck, ok := errors.AsType[*source.StuckError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, 5*time.Second, stuck.For)
		require.ErrorIs(t, err, enough)
		synctest.Wait()
	})
}

func TestADialerThatNeverConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, &config.Config{Host: "http://api.example.com", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		start := time.Now()
		_, err := ResourceFor[*corev1.Pod](c).Get(context.Background(), key, metav1.GetOptions{})
		require.ErrorContains(t, err, "the configured dialer took longer than 30s")
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

// Every request has a time limit.
func TestARequestThatIsNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, err := ResourceFor[*corev1.Pod](c).Get(context.Background(), key, metav1.GetOptions{})
		require.ErrorContains(t, err, "get pods default/a: no answer from pipe for 1m30s (the request is sent): ")
	})
}

// A server or proxy reads the header of a request and then stops reading. The wait for
// the response header begins only when the request was sent.
func TestARequestThatIsNeverRead(t *testing.T) {
	for timeout, want := range map[time.Duration]string{0: "1m0s", 10 * time.Second: "10s"} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer time.Sleep(time.Second) // for the server to end the connection
			defer close(release)
			c := pipeServer(t, func(http.ResponseWriter, *http.Request) { <-release })
			c.config.Timeout = timeout
			big := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
				Data:       map[string]string{"a": strings.Repeat("x", 1<<20)},
			}
			_, err := ResourceFor[*corev1.ConfigMap](c).Create(context.Background(), big, metav1.CreateOptions{})
			require.EqualError(t, err, "create configmaps in namespace default: no answer from pipe for "+want+" (sending the request): the server is not reading it")
		})
	}
}

// A partial response, or an interim one such as 100 Continue, does not show that the
// request was read.
func TestRequestIsNeverReadButTheAnswerBegins(t *testing.T) {
	for _, first := range []string{"H", "HTTP/1.1 100 Continue\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			c := clientOf(t, &config.Config{Host: "http://pipe", Timeout: 10 * time.Second, Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					_, _ = io.ReadFull(far, make([]byte, 100)) // the header has begun
					_, _ = io.WriteString(far, first)
				}()
				t.Cleanup(func() { far.Close() })
				return near, nil
			}})
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			big := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
				Data:       map[string]string{"a": strings.Repeat("x", 1<<20)},
			}
			_, err := ResourceFor[*corev1.ConfigMap](c).Create(ctx, big, metav1.CreateOptions{})
			require.EqualError(t, err, "create configmaps in namespace default: no answer from pipe for 10s (sending the request): the server is not reading it")
		})
	}
}

// http2Server serves HTTP/2 over pipes and calls dialled for each.
func http2Server(t *testing.T, cfg config.Config, dialled func(), h http.HandlerFunc) *Client {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	s := &httptest.Server{Listener: l, EnableHTTP2: true, Config: &http.Server{Handler: h}}
	s.StartTLS()
	cfg.Host, cfg.TLS.Insecure = "https://api.example.com", true
	cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialled()
		near, far := net.Pipe()
		l.conns <- far
		return near, nil
	}
	c := clientOf(t, &cfg)
	t.Cleanup(func() {
		c.CloseIdleConnections()
		s.Config.Close()
	})
	return c
}

func TestARequestThatIsNeverReadOnHTTP2(t *testing.T) {
	for _, hints := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := http2Server(t, config.Config{Timeout: 2 * time.Second}, func() {}, func(w http.ResponseWriter, r *http.Request) {
				if hints {
					w.WriteHeader(http.StatusEarlyHints)
				}
				<-r.Context().Done()
			})
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			big := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
				Data:       map[string]string{"a": strings.Repeat("x", 8<<20)},
			}
			_, err := ResourceFor[*corev1.ConfigMap](c).Create(ctx, big, metav1.CreateOptions{})
			require.EqualError(t, err, "create configmaps in namespace default: no answer from api.example.com for 2s (sending the request): the server is not reading it")
			require.NotErrorIs(t, err, context.Canceled)
		})
	}
}

// Two requests that start together are both sent over the first connection. The other
// dial continues in the background.
func TestADialThatIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		c := http2Server(t, config.Config{}, func() { time.Sleep(time.Duration(dials.Add(1)) * time.Second) }, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				_, err := ResourceFor[*corev1.Pod](c).Get(ctx, key, metav1.GetOptions{})
				if want := "get pods default/a: no answer from api.example.com for 4s (the request is sent): context deadline exceeded"; err == nil || err.Error() != want {
					t.Errorf("%v, want %s", err, want)
				}
			})
		}
		both.Wait()
		require.EqualValues(t, 2, dials.Load())
	})
}

func TestABodyThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", wire.MediaJSON)
			io.WriteString(w, `{"kind":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		_, err := ResourceFor[*corev1.Pod](c).Get(context.Background(), key, metav1.GetOptions{})
		require.EqualError(t, err, "get pods default/a: the body did not end within 1m0s; 8 bytes of it arrived")
	})
}

// A proxy sends the beginning of its page and then nothing more.
func TestAPageThatNeverEnds(t *testing.T) {
	pods := func(c *Client) *Resource[*corev1.Pod] { return ResourceFor[*corev1.Pod](c) }
	for name, do := range map[string]func(ctx context.Context, c *Client) error{
		"get": func(ctx context.Context, c *Client) error {
			return second(pods(c).Get(ctx, key, metav1.GetOptions{}))
		},
		"delete": func(ctx context.Context, c *Client) error {
			return pods(c).Delete(ctx, key, metav1.DeleteOptions{})
		},
		"watch": func(ctx context.Context, c *Client) error {
			return second(pods(c).Watch(ctx, metav1.ListOptions{}))
		},
		"discovery": func(ctx context.Context, c *Client) error {
			_, _, err := c.document(ctx, "/api", wire.MediaJSON)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "text/html")
					io.WriteString(w, "<html><head><title>Sign in</title>")
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				})
				start := time.Now()
				err := do(context.Background(), c)
				require.ErrorContains(t, err, `text/html titled "Sign in", which is not from the Kubernetes API`)
				require.Equal(t, maxBodyTime, time.Since(start))
			})
		})
	}
}

// lost is the body of a response whose connection does not answer pings.
type lost struct{ io.ReadCloser }

func (lost) Read([]byte) (int, error) { return 0, errors.New("http2: client connection lost") }

func TestAConnectionThatDiesSaysHowLongItWasSilent(t *testing.T) {
	b := &body{ReadCloser: lost{}, host: "api.example.com"}
	_, err := b.Read(nil)
	require.EqualError(t, err, "no answer from api.example.com for 45s (in the middle of the answer): http2: client connection lost")
}

// The error of a failed dial names the host once.
func TestADialErrorNamesTheHostOnce(t *testing.T) {
	refused := func(ip string) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 443}, Err: errors.New("refused")}
	}
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "api.example.com", Server: "10.0.0.2:53"}}
	for _, c := range []struct {
		host string
		err  error
		want string
	}{
		{"10.0.0.1:443", refused("10.0.0.1"), "dial tcp: refused"},
		{"10.0.0.1", refused("10.0.0.1"), "dial tcp: refused"},
		{"[fd00::1]:443", refused("fd00::1"), "dial tcp: refused"},
		{"[fd00::1]", refused("fd00::1"), "dial tcp: refused"},
		{"api.example.com", refused("10.0.0.1"), "dial tcp 10.0.0.1:443: refused"},
		{"api.example.com:6443", unknown, "dial tcp: lookup on 10.0.0.2:53: no such host"},
		{"api.example.com", io.EOF, "EOF"},
	} {
		err := noAnswer(t.Context(), c.host, new(source.Progress), c.err)
		require.EqualError(t, err, "no answer from "+c.host+": "+c.want)
		require.ErrorIs(t, err, c.err)
	}
}

// torn is a body whose connection net/http has closed because a write failed.
type torn struct{ io.ReadCloser }

func (torn) Read([]byte) (int, error) { return 0, errors.New(brokenOff) }

// The peer was gone; the client did not close the connection.
func TestABrokenConnectionIsNotBlamedOnTheClient(t *testing.T) {
	b := &body{ReadCloser: torn{}, host: "api.example.com"}
	_, err := b.Read(nil)
	require.EqualError(t, err, "connection lost: writing to it failed")
	require.EqualError(t, errors.Unwrap(err), brokenOff)
}
