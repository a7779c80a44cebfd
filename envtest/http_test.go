package envtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// caller is a client that uses only net/http.
type caller struct {
	t     testing.TB
	http  *http.Client
	url   string
	token string
}

// newCaller returns a client that trusts only the server's CA. The token may be empty.
func newCaller(t testing.TB, s *Server, token string, certs ...tls.Certificate) *caller {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(s.CA), "no certificate in the CA")
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: certs},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, http: &http.Client{Transport: transport}, url: s.URL, token: token}
}

// open sends a request and returns the response with its body unread. The body is
// closed when the test ends.
func (c *caller) open(method, path string, body any) *http.Response {
	c.t.Helper()
	var r io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(c.t, err)
		r = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, r)
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// call sends a request, checks the status code and returns the decoded response.
func (c *caller) call(code int, method, path string, body any) reply {
	c.t.Helper()
	resp := c.open(method, path, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, code, resp.StatusCode, "%s %s: %s", method, path, text)
	var r reply
	require.NoError(c.t, json.Unmarshal(text, &r), "%s", text)
	return r
}

// reply holds the tested parts of an object, a list and a Status.
type reply struct {
	Kind     string
	Code     int
	Reason   string
	Message  string
	Metadata meta
	Items    []reply
}

type meta struct {
	Name            string
	UID             string
	ResourceVersion string
	Continue        string
	Annotations     map[string]string
}

func (r reply) names() []string {
	var names []string
	for _, item := range r.Items {
		names = append(names, item.Metadata.Name)
	}
	return names
}

// event is one event of a watch.
type event struct {
	Type   string
	Object reply
}

// watch returns the events of a watch until last returns true or the stream ends.
func (c *caller) watch(path string, last func(event) bool) []event {
	c.t.Helper()
	resp := c.open(http.MethodGet, path, nil)
	defer resp.Body.Close()
	require.Equal(c.t, http.StatusOK, resp.StatusCode)
	var events []event
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		require.NoError(c.t, json.Unmarshal(lines.Bytes(), &e), "%s", lines.Text())
		events = append(events, e)
		if last(e) {
			return events
		}
	}
	require.NoError(c.t, lines.Err())
	return events
}

func configMap(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]any{"k": "v"}}
}

// expired expects a single event: the error that the resource version has expired.
func (c *caller) expired(path string) {
	c.t.Helper()
	events := c.watch(path, func(event) bool { return true })
	require.Len(c.t, events, 1)
	got := events[0]
	require.Equal(c.t, "ERROR 410 Expired", fmt.Sprint(got.Type, " ", got.Object.Code, " ", got.Object.Reason), got.Object.Message)
	c.t.Log(got.Object.Message)
}
