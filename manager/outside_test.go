package manager

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/serving"
)

// Pages that other machines can reach are protected.
func TestAddressesReachableFromOutside(t *testing.T) {
	for address, want := range map[string]bool{
		"": false, "0": false, "127.0.0.1:6060": false, "127.9.9.9:1": false, "[::1]:6060": false,
		"localhost:6060": false, "LocalHost:6060": false, "[::ffff:127.0.0.1]:1": false,
		"0.0.0.0:6060": true, "[::]:6060": true, "10.1.2.3:6060": true, "debug.example:6060": true,
	} {
		require.Equal(t, want, outside(address), address)
	}
}

// On interfaces other than loopback, contents need access control.
func TestContentsOnAReachableAddressNeedAccess(t *testing.T) {
	open := Options{PprofBindAddress: "10.1.2.3:6060", DebugContents: true}
	_, err := open.withDefaults(&config.Config{})
	require.ErrorContains(t, err, "DebugContents at 10.1.2.3:6060, where anyone could read")
	open.MetricsAccess, open.MetricsTLS = true, &serving.TLS{}
	_, err = open.withDefaults(&config.Config{})
	require.NoError(t, err)
	_, err = Options{PprofBindAddress: ":6060", DebugContents: true}.withDefaults(&config.Config{})
	require.NoError(t, err)
}

// A web page of another origin may link to the page of package debug, but cannot request anything else.
func TestForeignWebPagesCannotReadDebugPages(t *testing.T) {
	m, err := New(&config.Config{Host: "http://127.0.0.1:1"}, Options{Scheme: scheme.New()})
	require.NoError(t, err)
	for site, foreign := range map[string]bool{"": false, "none": false, "same-origin": false, "same-site": true, "cross-site": true} {
		for _, path := range []string{
			"/healthz", "/readyz/manager", "/debug/pprof/", "/debug/pprof/heap?gc=1", "/debug/pprof/cmdline", "/debug/pprof/symbol",
			"/debug/status", debug.Path + "v1/status", debug.Path,
		} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
			m.debugHandler().ServeHTTP(w, r)
			require.Equal(t, foreign && path != debug.Path, w.Code == http.StatusForbidden, "%s from %q: %s", path, site, w.Body)
		}
	}
}

// Large bodies of requests for debug pages are not read.
func TestBodiesForDebugPagesAreNotRead(t *testing.T) {
	m, err := New(&config.Config{Host: "http://127.0.0.1:1"}, Options{Scheme: scheme.New()})
	require.NoError(t, err)
	const sent = 8 << 20
	form := "--x\r\nContent-Disposition: form-data; name=\"seconds\"\r\n\r\n"
	for path, body := range map[string]string{"/debug/pprof/symbol": "", "/debug/pprof/heap": form} {
		rest := bytes.NewReader(bytes.Repeat([]byte("0x1+"), sent/4))
		r := httptest.NewRequest(http.MethodPost, path, io.MultiReader(bytes.NewReader([]byte(body)), rest))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		m.debugHandler().ServeHTTP(httptest.NewRecorder(), r)
		require.Less(t, sent-rest.Len(), 2*maxAsked, path)
	}
}
