package debug_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/workqueue"
)

func ask(p http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, debug.Path+"v1/"+path, nil))
	return w
}

type evil struct{}

func (evil) Error() string { panic("no text") }

// A failing hook is reported to the client and leaks nothing.
func TestHooksThatFail(t *testing.T) {
	queue := workqueue.New(workqueue.Options[int]{Name: "mine"})
	queue.Add(1)
	for name, opts := range map[string]debug.Options{
		"panic":  {Controllers: func() []controller.View { panic("broken") }},
		"nil":    {Controllers: func() []controller.View { return []controller.View{nil} }},
		"goexit": {Queues: func() []debug.Queue { runtime.Goexit(); return nil }},
		"key":    {Queues: func() []debug.Queue { return []debug.Queue{debug.QueueOf(queue, func(int) string { panic("broken") })} }},
		"error": {Election: func() *leaderelection.Status {
			return &leaderelection.Status{Failure: &leaderelection.Failure{Err: evil{}}}
		}},
	} {
		process := debug.New(opts)
		for range 10 {
			w := ask(process, "status")
			if name == "key" {
				w = ask(process, "queue?name=mine")
			}
			require.Equal(t, http.StatusInternalServerError, w.Code, name)
			require.Contains(t, w.Body.String(), "the debug query", name)
		}
		require.Equal(t, http.StatusOK, ask(process, "goroutines").Code, name)
	}
}

// A hanging hook blocks only its own request; others get an error.
func TestAHookThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		process := debug.New(debug.Options{Queues: func() []debug.Queue { <-hold; return nil }})
		var blocked sync.WaitGroup
		for range 4 {
			blocked.Go(func() { ask(process, "status") })
		}
		synctest.Wait()
		began := time.Now()
		w := ask(process, "goroutines")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "a function hangs")
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		close(hold)
		blocked.Wait()
		require.Equal(t, http.StatusOK, ask(process, "goroutines").Code)
	})
}

// A malformed query does not select everything.
func TestAQueryThatCannotBeRead(t *testing.T) {
	process := debug.New(debug.Options{})
	for _, path := range []string{"objects?namespace=%zz", "events?name=%zz", "objects?namespace=shop;name=x"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, debug.Path+"v1/objects", nil)
		what, raw, _ := strings.Cut(path, "?")
		r.URL.Path, r.URL.RawQuery = debug.Path+"v1/"+what, raw
		process.ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, w.Body.String(), "Invalid query", path)
	}
}

// stuck is a connection whose client does not read.
type stuck struct {
	http.ResponseWriter
	until time.Time
}

func (s *stuck) SetWriteDeadline(t time.Time) error { s.until = t; return nil }

func (s *stuck) Write([]byte) (int, error) {
	time.Sleep(time.Until(s.until))
	return 0, context.DeadlineExceeded
}

// Any number of clients that do not read hold few responses, and only briefly.
func TestClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		process := debug.New(debug.Options{})
		var mu sync.Mutex
		codes := map[int]int{}
		var requests sync.WaitGroup
		began := time.Now()
		for range 1000 {
			requests.Go(func() {
				recorder := httptest.NewRecorder()
				process.ServeHTTP(&stuck{ResponseWriter: recorder}, httptest.NewRequest(http.MethodGet, debug.Path+"v1/status", nil))
				mu.Lock()
				defer mu.Unlock()
				if recorder.Header().Get("Retry-After") != "" {
					codes[http.StatusServiceUnavailable]++
				} else {
					codes[http.StatusOK]++
				}
			})
		}
		requests.Wait()
		require.Equal(t, 68, codes[http.StatusOK])
		require.LessOrEqual(t, time.Since(began), 11*time.Second)
	})
}

// A stream that begins while its server shuts down ends too.
func TestAStreamAfterTheShutdown(t *testing.T) {
	process := debug.New(debug.Options{})
	server := &http.Server{}
	stream := func() {
		ctx := context.WithValue(t.Context(), http.ServerContextKey, server)
		process.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, debug.Path+"v1/events", nil))
	}
	ended := make(chan struct{})
	go func() { stream(); close(ended) }()
	require.Eventually(t, func() bool { return server.Shutdown(t.Context()) == nil && closed(ended) }, 10*time.Second, 10*time.Millisecond)
	again := make(chan struct{})
	go func() { stream(); close(again) }()
	require.Eventually(t, func() bool { return closed(again) }, 10*time.Second, 10*time.Millisecond)
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Labels of goroutines may be long.
func TestGoroutinesWithLongLabels(t *testing.T) {
	pprof.Do(t.Context(), pprof.Labels("long", strings.Repeat("x", 1<<20)), func(context.Context) {
		require.Equal(t, http.StatusOK, ask(debug.New(debug.Options{}), "goroutines").Code)
	})
}
