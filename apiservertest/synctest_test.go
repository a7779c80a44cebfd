package apiservertest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
)

// inBubble runs a server and its client in one synctest bubble, which fails if a
// goroutine remains when body has returned.
func inBubble(t *testing.T, opts apiservertest.Options, body func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opts.Resources = append(opts.Resources, widgetResource())
		srv := apiservertest.New(opts)
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		transport := &http.Transport{DialContext: endpoint.DialContext, DisableCompression: true}
		defer srv.Close()
		defer transport.CloseIdleConnections()
		body(t, &rig{Server: srv, t: t, url: endpoint.URL, client: &http.Client{Transport: transport}})
	})
}

func TestBubbleBookmarksAndTimeout(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		start := time.Now()
		events, err := r.watch("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=" + r.RV()).rest()
		require.NoError(t, err, "the timeout is a normal end")
		require.Equal(t, []string{"BOOKMARK @100", "BOOKMARK @100", "BOOKMARK @100"}, events, "at 60 s, 120 s and 148 s")
		require.Equal(t, 150*time.Second, time.Since(start))
	})
}

func TestBubbleWatchFromAFutureVersionSkips(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		w := r.watch("/api/v1/pods?watch=1&resourceVersion=102&timeoutSeconds=10")
		r.create(pod("default", "a"))
		synctest.Wait() // it has seen a, and must not send an event for it
		r.create(pod("default", "b"), pod("default", "c"))
		require.Equal(t, "ADDED c@103", w.next())
	})
}

func TestBubbleFutureVersionWaits(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		start := time.Now()
		require.EqualValues(t, 504, r.status("GET", "/api/v1/pods?resourceVersion=101", "").Code)
		require.Equal(t, 3*time.Second, time.Since(start))
		time.AfterFunc(time.Second, func() { r.create(pod("default", "a")) })
		require.Equal(t, []string{"a"}, r.list("/api/v1/pods?resourceVersion=101").names())
		require.Equal(t, 4*time.Second, time.Since(start))
	})
}

func TestBubbleLeavesNothing(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		for i := range 200 {
			r.create(pod("default", "p"+string(rune('a'+i%26))+string(rune('a'+i/26))))
		}
		// A client that never reads leaves the server blocked in a write.
		resp := r.open("GET", "/api/v1/pods?watch=1", "")
		synctest.Wait()
		require.Equal(t, 1, r.Stats().Open("watch", "pods"))

		// A client that disconnects ends its watch.
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/pods?watch=1", nil)
		require.NoError(t, err)
		other, err := r.client.Do(req)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, r.Stats().Open("watch", "pods"))
		cancel()
		synctest.Wait()
		require.Equal(t, 1, r.Stats().Open("watch", "pods"))
		other.Body.Close()

		r.Close()
		synctest.Wait()
		require.Zero(t, r.Stats().Open("", ""))
		_, err = io.Copy(io.Discard, resp.Body)
		require.Error(t, err)
	})
}

func TestBubbleRestartAndDown(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		w := r.watch("/api/v1/pods?watch=1&resourceVersion=100")
		r.Restart()
		_, err := w.rest()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a cut is not a normal end")

		idle := r.watch("/api/v1/pods?watch=1&resourceVersion=100")
		r.Down()
		_, err = idle.rest()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = r.client.Get(r.url + "/api/v1/pods")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		r.Up()
		r.create(pod("default", "a"))
		require.Equal(t, "ADDED a@101", r.watch("/api/v1/pods?watch=1&resourceVersion=100").next())
	})
}

func TestBubbleRestartClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		conn, err := endpoint.DialContext(t.Context(), "tcp", "any")
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		reader := bufio.NewReader(conn)
		resp, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		synctest.Wait()
		time.AfterFunc(time.Hour, func() { conn.Close() })
		srv.Restart()
		_, err = reader.ReadByte()
		require.ErrorIs(t, err, io.EOF, "closed by the server")
	})
}

func TestBubbleSilence(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		r.create(pod("default", "a"), pod("default", "b"))
		r.Faults().Add(apiservertest.Fault{Verb: "watch", Count: 1, Do: []apiservertest.Action{apiservertest.Silence{AfterFrames: 1}}})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/pods?watch=1&timeoutSeconds=10", nil)
		require.NoError(t, err)
		resp, err := r.client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		require.True(t, lines.Scan())
		require.False(t, lines.Scan())
		require.ErrorIs(t, lines.Err(), context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(began), "nothing came, not even an end")

		r.Faults().Add(apiservertest.Fault{Verb: "list", Count: 1, Do: []apiservertest.Action{apiservertest.Silence{}}})
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err = http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/pods", nil)
		require.NoError(t, err)
		_, err = r.client.Do(req)
		require.True(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
	})
}
