package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// pipeServer serves over in-memory connections, so it can run in a synctest bubble.
func pipeServer(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	c := clientOf(t, &config.Config{Host: "http://pipe", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case l.conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		server.Close()
	})
	return c
}

type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestEveryRefusalIsAStatusError(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("no")).ErrStatus
	for name, c := range map[string]struct {
		code  int
		media string
		body  []byte
		is    func(error) bool
		text  string
	}{
		"status in JSON":      {403, wire.MediaJSON, encode(t, wire.MediaJSON, kindStatus, &forbidden), apierrors.IsForbidden, `pods "a" is forbidden: no`},
		"status in protobuf":  {403, wire.MediaProtobuf, encode(t, wire.MediaProtobuf, kindStatus, &forbidden), apierrors.IsForbidden, `pods "a" is forbidden: no`},
		"status in CBOR":      {403, wire.MediaCBOR, encode(t, wire.MediaCBOR, kindStatus, &forbidden), apierrors.IsForbidden, `pods "a" is forbidden: no`},
		"plain text":          {403, "text/plain", []byte("go away\n"), apierrors.IsForbidden, `go away (get pods a)`},
		"404 of a web server": {404, "text/html", []byte("<html>\x00nothing"), isNotThere, `404 Not Found from HOST with text/html starting with "<html>.nothing" (get pods default/a)`},
		"404 in JSON":         {404, wire.MediaJSON, []byte(`{"error":"no route"}`), isNotThere, `404 Not Found from HOST: {"error":"no route"} (get pods default/a)`},
		"empty 404":           {404, "", nil, isNotThere, `404 Not Found from HOST: unknown (get pods default/a)`},
		"404 of a router":     {404, "text/plain", []byte("404 page not found\n"), apierrors.IsNotFound, `the server could not find the requested resource (get pods a)`},
		"endless 403":         {403, "text/html", bytes.Repeat([]byte("no"), maxStatusBytes), apierrors.IsForbidden, `403 Forbidden from HOST with text/html starting with "` + strings.Repeat("no", 50) + `..." (get pods default/a)`},
		"empty 401":           {401, "", nil, apierrors.IsUnauthorized, `the server has asked for the client to provide credentials (get pods a)`},
		"502 of a proxy":      {502, "text/html", []byte("<h1>Upstream is down</h1>"), isBadGateway, `502 Bad Gateway from HOST with text/html starting with "<h1>Upstream is down</h1>" (get pods default/a)`},
		"502 in plain text":   {502, "text/plain", []byte("upstream is down\n"), isBadGateway, `502 Bad Gateway from HOST: upstream is down (get pods default/a)`},
		"503 with a page":     {503, "text/html", []byte("<html><head><title>\n We&#39;ll be\n back </title>"), apierrors.IsServiceUnavailable, `503 Service Unavailable from HOST with text/html titled "We'll be back" (get pods default/a)`},
		"503 without a delay": {503, wire.MediaJSON, []byte("{"), apierrors.IsServiceUnavailable, `the server is currently unable to handle the request (get pods a)`},
		"status of a success": {500, wire.MediaJSON, []byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), apierrors.IsInternalError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"] = []string{c.media}
				w.WriteHeader(c.code)
				w.Write(c.body)
			})
			_, err := ResourceFor[*corev1.Pod](client).Get(t.Context(), key, metav1.GetOptions{})
			require.IsType(t, &apierrors.StatusError{}, err)
			require.True(t, c.is(err), "%v", err)
			require.EqualValues(t, c.code, err.(*apierrors.StatusError).ErrStatus.Code)
			if c.text != "" {
				require.EqualError(t, err, strings.ReplaceAll(c.text, "HOST", client.base.Host))
			}
		})
	}
}

// isNotThere reports whether err means that the API server, rather than the object, is
// unavailable.
func isNotThere(err error) bool {
	return apierrors.IsServiceUnavailable(err) && !apierrors.IsNotFound(err)
}

func isBadGateway(err error) bool { return apierrors.ReasonForError(err) == "BadGateway" }

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		header  http.Header
		body    string
		want    time.Duration
		details int32
	}{
		"seconds":      {http.Header{"Retry-After": {"7"}}, "", 7 * time.Second, 7},
		"date":         {http.Header{"Retry-After": {now.Add(90 * time.Second).Format(http.TimeFormat)}, "Date": {now.Format(http.TimeFormat)}}, "", source.MaxRetryAfter, 90},
		"date passed":  {http.Header{"Retry-After": {now.Format(http.TimeFormat)}, "Date": {now.Add(time.Hour).Format(http.TimeFormat)}}, "", 0, 0},
		"in the body":  {http.Header{}, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"details":{"retryAfterSeconds":3}}`, 3 * time.Second, 3},
		"the longer":   {http.Header{"Retry-After": {"9"}}, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"details":{"retryAfterSeconds":3}}`, 9 * time.Second, 9},
		"no details":   {http.Header{"Retry-After": {"9"}}, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429}`, 9 * time.Second, 9},
		"nonsense":     {http.Header{"Retry-After": {"soon"}}, "", 0, 0},
		"not at all":   {http.Header{}, "", 0, 0},
		"a day":        {http.Header{"Retry-After": {"86400"}}, "", source.MaxRetryAfter, 86400},
		"out of range": {http.Header{"Retry-After": {"99999999999"}}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for k, v := range c.header {
					w.Header()[k] = v
				}
				w.Header().Set("Content-Type", wire.MediaJSON)
				w.WriteHeader(http.StatusTooManyRequests)
				io.WriteString(w, c.body)
			})
			// List never retries, so the error is that of the one response.
			var failure error
			for _, err := range ResourceFor[*corev1.Pod](client).List(t.Context(), metav1.ListOptions{}).Items {
				failure = err
			}
			require.True(t, apierrors.IsTooManyRequests(failure), "%v", failure)
			got, ok := source.RetryAfter(fmt.Errorf("wrapped: %w", failure))
			require.Equal(t, c.want > 0, ok)
			require.Equal(t, c.want, got)
		})
	}
}

// Without a Date header, a date is compared with the client's clock. Fractions of a
// second are rounded up.
func TestRetryAfterDateByTheClientsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(500 * time.Millisecond)
		at := time.Now().Add(3500 * time.Millisecond).Truncate(time.Second)
		r := newRefusal("api.example.com", &request{}, &http.Response{StatusCode: 503, Body: http.NoBody, Header: http.Header{"Retry-After": {at.UTC().Format(http.TimeFormat)}}}, plain)
		got, ok := source.RetryAfter(r.status)
		require.True(t, ok)
		require.Equal(t, 4*time.Second, got)
	})
}

// All calls are retried after 429, and only idempotent ones after 503.
func TestCallsAreRepeatedIfThatIsSafe(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name string
		do   func(*Resource[*corev1.Pod]) error
		want int // number of requests
	}{
		{"get", func(r *Resource[*corev1.Pod]) error { return second(r.Get(ctx, key, metav1.GetOptions{})) }, 3},
		{"update with a version", func(r *Resource[*corev1.Pod]) error { return second(r.Update(ctx, pod("a"), metav1.UpdateOptions{})) }, 3},
		{"apply", func(r *Resource[*corev1.Pod]) error {
			return second(r.Apply(ctx, pod("a"), metav1.ApplyOptions{FieldManager: "me"}))
		}, 3},
		{"delete of a UID", func(r *Resource[*corev1.Pod]) error {
			return r.Delete(ctx, key, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("u")})
		}, 3},
		{"delete of a version", func(r *Resource[*corev1.Pod]) error {
			return r.Delete(ctx, key, metav1.DeleteOptions{Preconditions: metav1.NewRVDeletionPrecondition("1").Preconditions})
		}, 3},
		{"delete by name", func(r *Resource[*corev1.Pod]) error { return r.Delete(ctx, key, metav1.DeleteOptions{}) }, 2},
		{"create", func(r *Resource[*corev1.Pod]) error { return second(r.Create(ctx, pod("a"), metav1.CreateOptions{})) }, 2},
		{"update without a version", func(r *Resource[*corev1.Pod]) error {
			p := pod("a")
			p.ResourceVersion = ""
			return second(r.Update(ctx, p, metav1.UpdateOptions{}))
		}, 2},
		{"patch", func(r *Resource[*corev1.Pod]) error {
			return second(r.Patch(ctx, key, types.JSONPatchType, []byte("[]"), metav1.PatchOptions{}))
		}, 2},
		{"delete collection", func(r *Resource[*corev1.Pod]) error {
			return r.Namespace("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, 2},
		{"watch", func(r *Resource[*corev1.Pod]) error { return second(r.Watch(ctx, metav1.ListOptions{})) }, 1},
		{"list", func(r *Resource[*corev1.Pod]) error {
			for _, err := range r.List(ctx, metav1.ListOptions{}).Items {
				return err
			}
			return nil
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, codes := 0, []int{429, 503, 200}
				client := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", wire.MediaJSON)
					w.Header().Set("Retry-After", "2")
					w.WriteHeader(codes[n])
					if codes[n] == 200 {
						w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
					}
					n++
				})
				start := time.Now()
				err := c.do(ResourceFor[*corev1.Pod](client))
				require.Equal(t, c.want, n)
				waited := time.Since(start)
				switch c.want {
				case 1:
					require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
					require.Zero(t, waited)
					return
				case 2:
					require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
					require.GreaterOrEqual(t, waited, 2*time.Second)
					return
				}
				require.NoError(t, err)
				require.GreaterOrEqual(t, waited, 4*time.Second)
				require.LessOrEqual(t, waited, 5*time.Second)
			})
		})
	}
}

func TestPatienceIsBounded(t *testing.T) {
	for _, c := range []struct {
		retryAfter string
		code       int
		want       int // requests
	}{
		{"0", 429, 10},
		{"12", 503, 3}, // a third wait would exceed 30 s
		{"31", 429, 1},
		{"", 429, 1},
		{"1", 500, 10},
		{"1", 409, 1},
	} {
		t.Run(fmt.Sprintf("%d after %q", c.code, c.retryAfter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				client := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
					n++
					if c.retryAfter != "" {
						w.Header().Set("Retry-After", c.retryAfter)
					}
					w.WriteHeader(c.code)
				})
				start := time.Now()
				_, err := ResourceFor[*corev1.Pod](client).Get(t.Context(), key, metav1.GetOptions{})
				require.IsType(t, &apierrors.StatusError{}, err)
				require.Equal(t, c.want, n)
				require.LessOrEqual(t, time.Since(start), maxRetryWait)
			})
		})
	}
}

func TestCancelEndsTheWaitForARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := ResourceFor[*corev1.Pod](client).Get(ctx, key, metav1.GetOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// A wait that the server asked for is not blamed on the server's silence.
func TestRetryAfterDoesNotCountAsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := true
		c := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			if busy {
				busy = false
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.Header().Set("Content-Type", wire.MediaJSON)
			w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
		})
		progress := new(source.Progress)
		time.AfterFunc(15*time.Second, func() {
			assert.True(t, progress.Resting())
			assert.EqualError(t, progress.Waiting(nil), "waiting for the end of the pause requested by pipe for 15s")
		})
		_, err := ResourceFor[*corev1.Pod](c).Get(source.WithProgress(t.Context(), progress), key, metav1.GetOptions{})
		require.NoError(t, err)
		require.False(t, progress.Resting())
	})
}

func TestWarnings(t *testing.T) {
	var log bytes.Buffer
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", `299 - "v1 Thing is \"old\"", 299 - "and slow" "Fri, 02 Jan 2026 03:04:05 GMT"`)
		w.Header().Add("Warning", `199 - "not ours"`)
		w.Header().Add("Warning", `299 broken`)
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
	})
	client.log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		_, err := ResourceFor[*corev1.Pod](client).Get(t.Context(), key, metav1.GetOptions{})
		require.NoError(t, err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `level=WARN msg="v1 Thing is \"old\"" source="API server" request="pods default/a"`)
	require.Contains(t, lines[1], `msg="and slow"`)
}

// Any number of warnings leads to only a few log lines.
func TestWarningsOfOneAnswerAreBounded(t *testing.T) {
	var many []string
	for n := range 10_000 {
		many = append(many, fmt.Sprintf(`299 - "w%d"`, n))
	}
	for name, headers := range map[string][]string{"headers": many, "one header": {strings.Join(many, ", ")}} {
		var w warningLog
		var log bytes.Buffer
		for range 3 {
			w.report(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "", headers, plain)
		}
		require.Equal(t, maxAnswerWarnings+1, strings.Count(log.String(), "\n"), name)
		require.Contains(t, log.String(), moreWarnings, name)
		require.LessOrEqual(t, len(w.seen), maxAnswerWarnings+1, name)
	}
}

// The memory for warnings is bounded in bytes too.
func TestLongWarningsAreCut(t *testing.T) {
	var w warningLog
	var log bytes.Buffer
	long := strings.Repeat("é", maxWarning)
	w.report(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "", []string{`299 - "` + long + `"`}, plain)
	require.Contains(t, log.String(), "é...")
	require.NotContains(t, log.String(), "\\x")
	require.Less(t, log.Len(), maxWarning+500)
	for text := range w.seen {
		require.LessOrEqual(t, len(text), maxWarning+len("..."))
	}
}

func TestWarningsAreForgottenEventually(t *testing.T) {
	var w warningLog
	for i := range 10 * maxWarnings {
		require.True(t, w.isNew(fmt.Sprint(i)))
		require.LessOrEqual(t, len(w.seen), maxWarnings)
	}
}

// The log contains the request and the outcome, and nothing more.
func TestRequestLog(t *testing.T) {
	var log bytes.Buffer
	client, _ := record(t, kindPod, pod("a"))
	client.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	_, err := ResourceFor[*corev1.Pod](client).Create(t.Context(), pod("a"), metav1.CreateOptions{FieldManager: "secret"})
	require.NoError(t, err)
	require.Contains(t, log.String(), "level=DEBUG msg=request verb=create path=/api/v1/namespaces/default/pods status=200 duration=")
	require.NotContains(t, log.String(), "secret")
	require.NotContains(t, log.String(), "Accept")
}

// An error without a text would be useless.
func TestARefusalWithoutAMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`: "403 Forbidden from ",
		`{"kind":"Status","apiVersion":"v1","status":"Failure"}`:                                 "403 from ",
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", wire.MediaJSON)
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte(body))
		})
		_, err := ResourceFor[*corev1.Pod](c).Get(t.Context(), key, metav1.GetOptions{})
		require.EqualError(t, err, want+c.base.Host+" without a message (get pods default/a)")
	}
}
