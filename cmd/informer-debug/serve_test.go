package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/page"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// servePage runs serve until the test ends, and returns the address that it prints.
func servePage(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr debugtest.Transcript
	printed := make(chan struct{})
	stdout.When(debug.Path+"\n", func() { close(printed) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan debugtest.Result, 1)
	go func() { ended <- finish(t, ctx, append([]string{"serve"}, args...), around(&stdout, &stderr)) }()
	select {
	case <-printed:
	case r := <-ended:
		require.Fail(t, "it has ended", "%d: %s", r.Code, r.ErrOut)
	}
	t.Cleanup(func() {
		cancel()
		r := <-ended
		require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	})
	found := regexp.MustCompile(` at (http://127\.0\.0\.1:\d+)/debug/millrace/\n$`).FindStringSubmatch(stdout.String())
	require.NotNil(t, found, stdout.String())
	return found[1]
}

func asked(t *testing.T, address, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	r.Host = host
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func TestServeAProcess(t *testing.T) {
	far := httptest.NewServer(program(t, false))
	t.Cleanup(far.Close) // after the cleanup of serve, whose stream it waits for
	address := servePage(t, "--attach", far.URL)
	for _, host := range []string{"", "localhost:80", "[::1]:80"} {
		code, page := asked(t, address, host) // the root redirects to the page
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, page, "<title>Millrace</title>")
	}
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example"} {
		code, text := asked(t, address+debug.Path+"v1/status", host)
		require.Equal(t, http.StatusForbidden, code, host)
		require.NotContains(t, text, "pods")
	}
	client := debug.Attach(address, nil)
	status, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "pods", status.Informers[0].Reflector.Resource)
	o, err := client.Object(t.Context(), debug.Which{Informer: "pods"}, object.Key{Namespace: "shop", Name: "good"})
	require.NoError(t, err)
	require.Empty(t, o.Contents)

	events, err := http.Get(address + debug.Path + "v1/events") // an open stream does not delay the end
	require.NoError(t, err)
	t.Cleanup(func() { events.Body.Close() })
	far.Config.Handler = http.NotFoundHandler()
	code, text := asked(t, address+debug.Path+"v1/status", "")
	require.Equal(t, http.StatusNotFound, code, text)
}

func TestServeACluster(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	client := debug.Attach(servePage(t, "po", "cm", "-n", "shop", server), nil)
	require.Eventually(t, func() bool {
		pods, err := client.Objects(t.Context(), debug.Which{Informer: "pods in namespace shop"}, debug.Page{})
		return err == nil && pods.Synced && len(pods.Heads) == 2
	}, 10*time.Second, time.Millisecond)
}

// A foreign Host header is refused on other interfaces, too.
func TestAccessToTheWebPage(t *testing.T) {
	handler := page.OnlyFor("page.example", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, code := range map[string]int{
		"10.1.2.3:80": 200, "10.1.2.3": 200, "[fe80::1]:80": 200, "localhost": 200, "Page.example:80": 200,
		"evil.example": 403, "evil.example:80": 403, "10.1.2.3.evil.example": 403, "": 403,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		handler.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, host)
	}
}

func TestServeRefuses(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve"}, exit.CodeUsage, "specify the types to watch"},
		{[]string{"serve", "pods", "--attach", closed.URL}, exit.CodeUsage, "omit the type"},
		{[]string{"serve", "--attach", closed.URL}, exit.CodeUnavailable, "connection refused"},
		{[]string{"serve", "--attach", closed.URL, "--listen", "8000"}, exit.CodeUsage, "want HOST:PORT"},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, c.code, r.Code, "%v: %s", c.args, r.ErrOut)
		require.Contains(t, r.ErrOut, c.want)
	}
}
