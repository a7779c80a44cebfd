package apiservertest_test

import (
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
)

func TestHTTP2IsCutByRestart(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{TLS: true})
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(endpoint.CA))
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	r := &rig{Server: srv, t: t, url: endpoint.URL, client: &http.Client{Transport: transport}}

	resp := r.open("GET", "/api/v1/pods?watch=1&resourceVersion=100", "")
	require.Equal(t, 2, resp.ProtoMajor)
	r.create(pod("default", "a"))
	buffer := make([]byte, 1)
	_, err = resp.Body.Read(buffer)
	require.NoError(t, err)
	srv.Restart()
	for err == nil {
		_, err = resp.Body.Read(buffer)
	}
	require.NotEqual(t, "EOF", err.Error())
	require.Len(t, r.list("/api/v1/pods").Items, 1, "the next connection works")
}

func TestGzipOnlyIfRequested(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	for i := range 400 {
		r.create(pod("default", fmt.Sprintf("pod-%d", i)))
	}
	_, _, header := r.do("GET", "/api/v1/pods", "")
	require.Empty(t, header.Get("Content-Encoding"))
	_, _, header = r.do("GET", "/api/v1/pods?limit=3", "", "Accept-Encoding", "gzip")
	require.Empty(t, header.Get("Content-Encoding"), "a small answer is not worth it")
	resp := r.open("GET", "/api/v1/pods", "", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	zip, err := gzip.NewReader(resp.Body)
	require.NoError(t, err)
	var l list
	require.NoError(t, json.NewDecoder(zip).Decode(&l))
	require.Len(t, l.Items, 400)
}

// A link of package network carries the connections of a Pipe endpoint.
func TestConnectOverALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		link := network.New(1).Link("client")
		link.Set(network.Conditions{Latency: 50 * time.Millisecond})
		transport := &http.Transport{DialContext: link.Dialer(endpoint.Connect), DisableCompression: true}
		defer transport.CloseIdleConnections()
		r := &rig{Server: srv, t: t, url: endpoint.URL, client: &http.Client{Transport: transport}}

		start := time.Now()
		r.create(pod("default", "a"))
		require.Equal(t, []string{"a"}, r.list("/api/v1/pods").names())
		require.Equal(t, 200*time.Millisecond, time.Since(start).Round(time.Millisecond), "a handshake and a round trip")
		w := r.watch("/api/v1/pods?watch=1&resourceVersion=101")
		require.Equal(t, 1, link.Cut())
		_, err = w.rest()
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, []string{"a"}, r.list("/api/v1/pods").names(), "over the next connection")
		srv.Down()
		_, err = r.client.Get(r.url + "/api/v1/pods")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

func TestAPortAcceptsItsOwnConnections(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, endpoint.Connect(t.Context(), nil), "use Pipe")
}
