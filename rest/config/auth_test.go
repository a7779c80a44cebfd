package config

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTransportRetriesOnceAfter401(t *testing.T) {
	var seen []string
	wanted := "Bearer one"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, r.Header.Get("Authorization")+" "+string(body))
		if r.Header.Get("Authorization") != wanted {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	path := writeFile(t, filepath.Join(t.TempDir(), "token"), []byte("one\n"))
	client, _, err := (&Config{Host: s.URL, BearerTokenFile: path}).HTTPClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	post := func(body io.Reader) int {
		t.Helper()
		seen = nil
		resp, err := client.Post(s.URL, "text/plain", body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}

	require.Equal(t, 200, post(strings.NewReader("x")))
	require.Equal(t, []string{"Bearer one x"}, seen)

	wanted = "Bearer two"
	require.Equal(t, 401, post(strings.NewReader("x")))
	require.Equal(t, []string{"Bearer one x"}, seen, "there is no other token: the request must not be repeated")

	writeFile(t, path, []byte("two\n"))
	require.Equal(t, 200, post(strings.NewReader("x")))
	require.Equal(t, []string{"Bearer one x", "Bearer two x"}, seen)

	wanted = "Bearer three"
	writeFile(t, path, []byte("three\n"))
	require.Equal(t, 401, post(io.MultiReader(strings.NewReader("x"))), "a body that cannot be had again must not be repeated")
	require.Equal(t, []string{"Bearer two x"}, seen)
	require.Equal(t, 200, post(strings.NewReader("x")), "the next request must use the new token")
	require.Equal(t, []string{"Bearer three x"}, seen)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer own")
	seen = nil
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []string{"Bearer own "}, seen, "the caller's own header is left alone")
}

func TestTransportRotatesUnderLoad(t *testing.T) {
	ca := newAuthority(t, "ca")
	var wanted atomic.Value
	wanted.Store("Bearer 0")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != wanted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	dir := t.TempDir()
	token, caFile := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	replace := func(path string, data string) {
		writeFile(t, path+".new", []byte(data))
		require.NoError(t, os.Rename(path+".new", path))
	}
	replace(token, "0")
	replace(caFile, string(ca.pem))
	client, base, err := (&Config{Host: s.URL, BearerTokenFile: token, TLS: TLS{CAFile: caFile}}).HTTPClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	for round := 1; round <= 10; round++ {
		next := strconv.Itoa(round)
		replace(token, next)
		replace(caFile, string(ca.pem)+"# "+next+"\n")
		wanted.Store("Bearer " + next)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				resp, err := client.Get(base.String())
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				_ = resp.Body.Close() // unread
				if resp.StatusCode != http.StatusOK {
					t.Errorf("round %d: got status %d, want 200", round, resp.StatusCode)
				}
			})
		}
		wg.Wait()
	}
}

func TestTransportImpersonates(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(s.Close)
	_, _, err := fetch(t, &Config{Host: s.URL, Impersonate: Impersonation{
		UserName: "jane", UID: "7", Groups: []string{"a", "b"},
		Extra: map[string][]string{"scopes": {"x", "y"}, "acme.com/pro%ject": {"p"}},
	}}, "/")
	require.NoError(t, err)
	require.Equal(t, []string{"jane"}, got.Values("Impersonate-User"))
	require.Equal(t, []string{"7"}, got.Values("Impersonate-Uid"))
	require.Equal(t, []string{"a", "b"}, got.Values("Impersonate-Group"))
	require.Equal(t, []string{"x", "y"}, got.Values("Impersonate-Extra-Scopes"))
	require.Equal(t, []string{"p"}, got.Values("Impersonate-Extra-Acme.com%2fpro%25ject"))
}

func TestTransportKeepsCredentialsFromOtherServers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect to another server was followed")
	}))
	t.Cleanup(other.Close)
	var paths []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path+" "+r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/?code=marked-secret", http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	c := &Config{Host: s.URL, BearerToken: "t0ken"}
	_, _, err := fetch(t, c, "/away")
	require.ErrorContains(t, err, s.URL+" redirects to "+other.URL+", which is not followed")
	require.NotContains(t, err.Error(), "marked-secret")

	paths = nil
	status, _, err := fetch(t, c, "/within")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, []string{"/within Bearer t0ken", "/here Bearer t0ken"}, paths)

	_, _, err = fetch(t, c, "/loop")
	require.ErrorContains(t, err, "10 redirects")

	client, _, err := c.HTTPClient()
	require.NoError(t, err)
	_, _, err = fetchWith(t, client, other.URL)
	require.ErrorContains(t, err, "refused")
}

func TestTransportErrorsSuggestAFix(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, _, err := fetch(t, &Config{Host: gone.URL}, "/")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "check that the API server is running")
	_, _, err = fetch(t, &Config{Host: "https://api.invalid", ProxyURL: gone.URL}, "/")
	require.ErrorContains(t, err, "check the proxy")
	_, _, err = fetch(t, &Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)}, "/")
	require.ErrorContains(t, err, "use http://")
	_, _, err = (&Config{Host: "x", WrapTransport: func(http.RoundTripper) http.RoundTripper { return nil }}).HTTPClient()
	require.ErrorContains(t, err, "returned nil")
}

// The error of a rejected redirect shows the path, unless it contains credentials,
// including those that the user's RoundTripper added.
func TestARefusedRedirectRepeatsNoCredentials(t *testing.T) {
	const token = "t0ken/with+all-sorts"
	to := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(s.Close)
	adds := func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
			return next.RoundTrip(r)
		})
	}
	for _, c := range []*Config{{Host: s.URL, BearerToken: token}, {Host: s.URL, WrapTransport: adds}} {
		client, _, err := c.HTTPClient()
		require.NoError(t, err)
		for _, c := range []struct{ to, want string }{
			{"/login", "redirects a POST to the path /login with status 302"},
			{"/login/" + token, "redirects a POST to another path with status 302"},
			{"/login/" + url.PathEscape(token), "redirects a POST to another path with status 302"},
		} {
			to = c.to
			_, err = client.Post(s.URL, "text/plain", strings.NewReader("x"))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "all-sorts")
		}
	}
}

// One origin may host several API servers. The credentials for one must not go to
// another, whose objects would look like its own.
func TestARedirectStaysBelowThePrefix(t *testing.T) {
	var asked []string
	location := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		if len(asked) == 1 {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		}
	}))
	defer s.Close()
	for to, followed := range map[string]bool{
		"/k8s/clusters/c-1/api/v1/pods":            true,
		"pods":                                     true,
		"/k8s/clusters/c-1":                        true,
		s.URL + "/k8s/clusters/c-1/api":            true,
		"/k8s/clusters/c-2/api/v1/secrets":         false,
		"/k8s/clusters/c-10/api/v1/secrets":        false,
		"../../../c-2/api":                         false,
		"/k8s/clusters/c-1/../c-2/api":             false,
		"/k8s/clusters/c-1/%2e%2e/c-2/api":         false,
		"/k8s/clusters/c-1/..%2fc-2/api":           false,
		"/k8s%2fclusters/c-1/api":                  false,
		"/":                                        false,
		s.URL + "/v3/users":                        false,
		"//" + s.Listener.Addr().String() + "/k8s": false,
	} {
		asked, location = nil, to
		_, _, err := fetch(t, &Config{Host: s.URL + "/k8s/clusters/c-1", BearerToken: "operator"}, "/api/v1/secrets")
		if followed {
			require.NoError(t, err, to)
			require.Len(t, asked, 2, to)
			continue
		}
		require.ErrorContains(t, err, "redirects to a path that is not below /k8s/clusters/c-1, which is not followed", to)
		require.Len(t, asked, 1, to)
	}
}

// A request with impersonation headers gets none of the configured identity.
func TestImpersonationIsNotMixed(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	defer s.Close()
	client, base, err := (&Config{Host: s.URL, Impersonate: Impersonation{UserName: "admin", Groups: []string{"system:masters"}}}).HTTPClient()
	require.NoError(t, err)
	for header, want := range map[string][2]string{"": {"admin", "system:masters"}, "Impersonate-User": {"x", ""}, "Impersonate-Group": {"", "x"}, "Impersonate-Uid": {"", ""}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base.String(), nil)
		require.NoError(t, err)
		if header != "" {
			req.Header.Set(header, "x")
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, want, [2]string{got.Get("Impersonate-User"), got.Get("Impersonate-Group")}, header)
	}
}
