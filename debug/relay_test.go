package debug_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/recording"
)

// The relay returns the responses of the process unchanged.
func TestTheRelayPassesOn(t *testing.T) {
	process := debug.New(debug.Options{Program: "far", Recorder: flight.New(flight.DefaultSize)})
	relay := process.Client().Handler()
	for _, question := range []string{
		"status", "objects", "object?name=a", "indexes", "queue?name=a", "timeline?name=a", "timeline", "why?name=a&namespace=b%26c",
		"busiest?limit=2", "busiest?limit=x", "goroutines", "stacks?name=a", "objects?%zz", "recording",
	} {
		want, got := asked(process, http.MethodGet, debug.Path+"v1/"+question), asked(relay, http.MethodGet, debug.Path+"v1/"+question)
		require.Equal(t, want.StatusCode, got.StatusCode, question)
		require.Equal(t, want.Header.Get("Content-Type"), got.Header.Get("Content-Type"), question)
		wanted, err := io.ReadAll(want.Body)
		require.NoError(t, err)
		given, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		if what, _, _ := strings.Cut(question, "?"); what != "status" && what != "goroutines" { // these differ each time
			require.Equal(t, string(wanted), string(given), question)
		}
	}
	require.Equal(t, http.StatusNotFound, asked(relay, http.MethodGet, debug.Path+"v1/nothing").StatusCode)
}

// A stream ends when the relay's server shuts down, although the process continues.
func TestTheRelayStreams(t *testing.T) {
	far := httptest.NewServer(debug.New(debug.Options{Recorder: flight.New(flight.DefaultSize)}))
	defer far.Close()
	near := httptest.NewServer(debug.Attach(far.URL, nil).Handler())
	defer near.Close()
	r, err := http.Get(near.URL + debug.Path + "v1/events")
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	line, err := bufio.NewReader(r.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, ": stream open\n", line)
	require.NoError(t, near.Config.Shutdown(t.Context()))
	_, err = io.ReadAll(r.Body)
	require.NoError(t, err)
}

// A recording is relayed unchanged.
func TestTheRelayOfARecording(t *testing.T) {
	r := recorder(t, recording.Options{})
	receive(t, r, `{"kind":"PodList"}`)
	process := debug.New(debug.Options{Recording: r, Contents: true})
	far := httptest.NewServer(process)
	defer far.Close()
	near := httptest.NewServer(debug.Attach(far.URL, nil).Handler())
	defer near.Close()
	body, err := debug.Attach(near.URL, nil).Recording(t.Context())
	require.NoError(t, err)
	defer body.Close()
	straight, err := debug.Attach(far.URL, nil).Recording(t.Context())
	require.NoError(t, err)
	defer straight.Close()
	require.NoError(t, r.Close())
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	want, err := io.ReadAll(straight)
	require.NoError(t, err)
	both := min(len(want), len(got)) // the last bytes may be missing at the end of a recording
	require.Contains(t, string(got), "PodList")
	require.Equal(t, string(want[:both]), string(got[:both]))
}

// A HEAD request for a stream gets a response, and the connection becomes free again.
func TestTheHeadOfAStream(t *testing.T) {
	process := debug.New(debug.Options{Recorder: flight.New(flight.DefaultSize)})
	for name, handler := range map[string]http.Handler{"process": process, "relay": process.Client().Handler()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				w, began := httptest.NewRecorder(), time.Now()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodHead, debug.Path+"v1/events", nil))
				require.Zero(t, time.Since(began))
				require.Equal(t, http.StatusOK, w.Code)
				require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
			})
		})
	}
}

// lying answers in place of a process.
type lying func(*http.Request) (*http.Response, error)

func (l lying) RoundTrip(r *http.Request) (*http.Response, error) { return l(r) }

// An impostor cannot make the page's server send anything other than JSON, nor any
// headers.
func TestRelayOfAnImpostor(t *testing.T) {
	page := func(code int, form string) lying {
		return func(r *http.Request) (*http.Response, error) {
			require.Empty(t, r.Header.Get("Cookie"))
			h := http.Header{"Content-Type": {form}, "Set-Cookie": {"a=b"}, "Millrace-Debug": {"v1"}, "Content-Security-Policy": {"script-src *"}}
			return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("<script>1</script>")), Request: r}, nil
		}
	}
	for name, c := range map[string]struct {
		lie  lying
		code int
		want string
	}{
		"a page":   {page(200, "text/html"), http.StatusBadGateway, "not a Millrace process"},
		"an error": {page(403, "text/html"), http.StatusForbidden, "not a Millrace process"},
		"a text":   {page(403, "text/plain"), http.StatusForbidden, "<script>"},
		"a stranger": {func(r *http.Request) (*http.Response, error) {
			h := http.Header{"Content-Type": {"application/json"}}
			return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(strings.NewReader(`{"status":"ok"}`)), Request: r}, nil
		}, http.StatusBadGateway, "not a Millrace process"},
		"a redirect":  {page(302, "text/html"), http.StatusBadGateway, ""},
		"not at all":  {func(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") }, http.StatusBadGateway, "The process does not respond: no route to host."},
		"as it is":    {page(200, "application/json"), http.StatusOK, "<script>"},
		"a long text": {page(500, strings.Repeat("a", 1<<16)), http.StatusInternalServerError, "<script>"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, debug.Path+"v1/status", nil)
			r.Header.Set("Cookie", "secret=1")
			w := httptest.NewRecorder()
			address := (&url.URL{Scheme: "http", User: url.UserPassword("me", "hidden"), Host: "far"}).String()
			debug.Attach(address, &http.Client{Transport: c.lie}).Handler().ServeHTTP(w, r)
			require.Equal(t, c.code, w.Code)
			require.Contains(t, w.Body.String(), c.want)
			require.NotContains(t, w.Body.String(), "hidden")
			require.Empty(t, w.Header().Get("Set-Cookie"))
			require.Equal(t, "default-src 'none'", w.Header().Get("Content-Security-Policy"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			require.NotContains(t, w.Header().Get("Content-Type"), "html")
		})
	}
}

// An impostor cannot make the relay request an address of its choice, such as one that
// only the relay's machine can reach.
func TestTheRelayFollowsNoRedirect(t *testing.T) {
	asked := false
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = true
		http.Error(w, "inside", http.StatusForbidden)
	}))
	defer inside.Close()
	liar := httptest.NewServer(http.RedirectHandler(inside.URL+"/latest/meta-data", http.StatusFound))
	defer liar.Close()
	w := httptest.NewRecorder()
	debug.Attach(liar.URL, nil).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, debug.Path+"v1/status", nil))
	require.Equal(t, http.StatusBadGateway, w.Code)
	require.Contains(t, w.Body.String(), "redirects to another address, which is not followed")
	require.False(t, asked)
}
