package doctor

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
)

func TestDoctorIsNotTakenInByAPageOfAProxy(t *testing.T) {
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
	require.Contains(t, found.all[0].What, `something else, of type "text/html"`)
}

func TestDoctorCountsBookmarks(t *testing.T) {
	for period, want := range map[time.Duration]string{
		10 * time.Second: "no bookmark came within 10s, which tells nothing",
		70 * time.Second: "a bookmark came after ",
		5 * time.Minute:  "bookmarks come each 1m0s",
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
			require.Zero(t, found.problems())
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
