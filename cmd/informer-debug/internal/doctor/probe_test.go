package doctor

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/rest/scheme"
)

func TestDoctorIsNotFooledByAProxyPage(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>Please log in.")
	}))
	defer page.Close()
	client, err := rest.NewClient(&config.Config{Host: page.URL}, nil)
	require.NoError(t, err)
	var found findings
	p, err := newProbe(&config.Config{Host: page.URL}, &found)
	require.NoError(t, err)
	at := cluster.Target{Client: client, Server: page.URL, Mapping: discovery.Mapping{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: debugtest.Pods(), Namespaced: true}}
	require.NoError(t, p.resource(t.Context(), at, false, time.Second))
	require.Len(t, found.all, 1)
	require.Equal(t, levelProblem, found.all[0].Level)
	require.Contains(t, found.all[0].What, `is not a list, but has type "text/html"`)
}

func TestDoctorCountsBookmarks(t *testing.T) {
	for period, want := range map[time.Duration]string{
		10 * time.Second: "no bookmark arrived within 10s, which is inconclusive",
		70 * time.Second: "a bookmark arrived after ",
		5 * time.Minute:  "bookmarks arrive every 1m0s",
	} {
		synctest.Test(t, func(t *testing.T) {
			_, cfg := debugtest.Bubbled(t)
			client, err := rest.NewClient(cfg, nil)
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			var found findings
			p, err := newProbe(cfg, &found)
			require.NoError(t, err)
			defer p.http.CloseIdleConnections()
			at := cluster.Target{Client: client, Mapping: discovery.Mapping{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: debugtest.Pods(), Namespaced: true}}
			require.NoError(t, p.resource(t.Context(), at, true, period))
			require.Contains(t, found.all[len(found.all)-1].What, want)
			require.Zero(t, found.count(levelProblem))
		})
	}
}

func TestDoctorOfCredentialsAndTheClock(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	token := func(exp time.Time) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, exp.Unix())) + ".c2lnbmVk"
	}
	for text, want := range map[string]string{
		token(now.Add(time.Hour)):   "ok token expires in 1h0m0s",
		token(now.Add(time.Minute)): "warning token expires in 1m0s",
		token(now.Add(-time.Hour)):  "problem token expired 1h0m0s ago",
		"no.token.":                 "",
		"opaque":                    "",
	} {
		var found findings
		(&probe{findings: &found, config: &config.Config{BearerToken: text}}).credentials(now)
		got := ""
		for _, f := range found.all {
			got = f.Level + " " + f.About + " " + f.What
			require.NotContains(t, got+f.Do, text)
		}
		require.Equal(t, want, got)
	}
	for off, level := range map[time.Duration]string{0: levelOK, -8 * time.Second: levelWarning, 5 * time.Minute: levelProblem} {
		var found findings
		(&probe{findings: &found}).clock(http.Header{"Date": {now.Add(off).Format(http.TimeFormat)}}, now)
		require.Equal(t, level, found.all[0].Level)
	}
}

// A streaming list that takes long is no problem while objects arrive, unlike one that stalls.
func TestDoctorOfALongStreamingList(t *testing.T) {
	for stalls, want := range map[bool]string{
		false: "ok a streaming list returned 17 objects within 10s, which is inconclusive: it was not read to its end",
		true:  "warning a streaming list did not end: the server did not end it within 10s",
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := rest.NewClient(&config.Config{Host: "http://x", WrapTransport: func(http.RoundTripper) http.RoundTripper {
				return trickle{stalls}
			}}, nil)
			require.NoError(t, err)
			var found findings
			at := cluster.Target{Client: client, Mapping: discovery.Mapping{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: debugtest.Pods(), Namespaced: true}}
			(&probe{findings: &found}).watches(t.Context(), at, "1", time.Second)
			require.Equal(t, want, found.all[0].Level+" "+found.all[0].What)
		})
	}
}

// trickle is a server that sends an object of a watch every 600 milliseconds, and four at most if it stalls.
type trickle struct{ stalls bool }

func (s trickle) RoundTrip(r *http.Request) (*http.Response, error) {
	from, to := io.Pipe()
	go func() {
		for n := 0; r.Context().Err() == nil; n++ {
			if n < 4 || !s.stalls {
				fmt.Fprintf(to, `{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"p%d","uid":"%[1]d","resourceVersion":"%[1]d"}}}`+"\n", n+1)
			}
			select {
			case <-time.After(600 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		to.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: from, Request: r}, nil
}

// The names in a role come from the server. They cannot add lines to it, or control a terminal.
func TestNamesInARole(t *testing.T) {
	at := cluster.Target{Namespace: "shop\nx: 1", Mapping: discovery.Mapping{Resource: object.GVR{Version: "v1", Resource: "pods\n\x1b[2J\u009b"}}}
	require.Equal(t, `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: "informer-pods\n\x1b[2J\u009b"
  namespace: "shop\nx: 1"
rules:
- apiGroups: [""]
  resources: ["pods\n\x1b[2J\u009b"]
  verbs: ["get", "list", "watch"]
`, roleFor(at))
}

// A header of the answer may repeat the token.
func TestAContentTypeThatRepeatsTheToken(t *testing.T) {
	const token = "kd93Hq7mZw0Lx2TtUe8vPzR41"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; for="+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	cfg := &config.Config{Host: server.URL, BearerToken: token}
	client, err := rest.NewClient(cfg, scheme.New())
	require.NoError(t, err)
	found := &findings{}
	p, err := newProbe(cfg, found)
	require.NoError(t, err)
	pods := discovery.Mapping{Kind: object.GVK{Version: "v1", Kind: "Pod"}, Resource: object.GVR{Version: "v1", Resource: "pods"}, Namespaced: true}
	at := cluster.Target{Client: client, Mapping: pods, Server: server.URL}
	require.NoError(t, p.resource(t.Context(), at, true, time.Second))
	require.NotContains(t, fmt.Sprintf("%+v", found.all), token)
}

// A token file may be endless, such as a device. The read stops at the largest size of a
// configuration.
func TestEndlessTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endless")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(256<<20))
	require.NoError(t, f.Close())
	cfg, err := config.Parse([]byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t, tokenFile: '" + path + "'}}]\n"))
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tokenExpiry(cfg)
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(100), "MiB for a file of 256")
}
