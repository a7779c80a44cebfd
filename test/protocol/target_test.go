package protocol

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/envtest"
)

// target is a server under test.
type target struct {
	name   string
	url    string
	admin  string // bearer token with all rights
	nobody string // bearer token without rights
	client *http.Client
}

// targets are filled by TestMain.
var targets []*target

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	simulated, stop, err := startSimulated()
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulated server:", err)
		return 1
	}
	defer stop()
	targets = append(targets, simulated)
	if testing.Short() {
		return m.Run()
	}
	real, stop, err := startReal()
	if err != nil {
		fmt.Fprintln(os.Stderr, "real server:", err)
		return 1
	}
	defer stop()
	targets = append(targets, real)
	return m.Run()
}

func startSimulated() (*target, func(), error) {
	widgets, err := apiservertest.ReadDefinition([]byte(widgetDefinition))
	if err != nil {
		return nil, nil, err
	}
	srv := apiservertest.New(apiservertest.Options{
		NamespaceLifecycle: true,
		ShardSelectors:     true,
		Tokens:             map[string]string{"a": "admin", "n": "nobody"},
		Authorize: func(a apiservertest.Attributes) bool {
			return a.User == "admin" || a.User == "nobody" && a.Resource == "" && a.Path != "/metrics"
		},
		Resources: []apiservertest.Resource{widgets},
	})
	endpoint, err := srv.Listen(apiservertest.ListenOptions{TLS: true})
	if err != nil {
		return nil, nil, err
	}
	t := &target{name: "simulated", url: endpoint.URL, admin: "a", nobody: "n", client: trusting(endpoint.CA)}
	return t, srv.Close, nil
}

func startReal() (*target, func(), error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := envtest.Launch(ctx, envtest.Options{})
	if err != nil {
		return nil, nil, err
	}
	stop := func() {
		if err := srv.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the real server:", err)
		}
	}
	t := &target{name: "real", url: srv.URL, admin: srv.AdminToken, nobody: srv.NobodyToken, client: trusting(srv.CA)}
	if err := t.defineWidgets(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return t, stop, nil
}

func trusting(ca []byte) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
	}}
}

const widgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"kind":"Widget","plural":"widgets","singular":"widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.count","labelSelectorPath":".status.selector"}},
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"size":{"type":"integer"}}}}}},
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// defineWidgets creates the custom resource and waits until it is served.
func (s *target) defineWidgets(ctx context.Context) error {
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	code, body, err := s.send(ctx, "POST", path, widgetDefinition, "Content-Type", "application/json")
	if err != nil || code != http.StatusCreated {
		return fmt.Errorf("define widgets: %d %s: %w", code, body, err)
	}
	for {
		code, body, err = s.send(ctx, "GET", "/apis/example.com/v1/widgets", "")
		if err == nil && code == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for widgets: %d %s: %w", code, body, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *target) send(ctx context.Context, method, path, body string, header ...string) (int, []byte, error) {
	resp, err := s.open(ctx, method, path, body, header...)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

func (s *target) open(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "protocol-test")
	req.Header.Set("Authorization", "Bearer "+s.admin)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	return s.client.Do(req)
}

// session is a target within one test: it has its own namespace, and its methods fail the test.
type session struct {
	*target
	t  *testing.T
	ns string
}

// forEach runs a test against every server.
func forEach(t *testing.T, test func(s *session)) {
	for _, target := range targets {
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			test(newSession(t, target))
		})
	}
}

func newSession(t *testing.T, target *target) *session {
	t.Helper()
	s := &session{target: target, t: t}
	s.ns = s.must("POST", "/api/v1/namespaces", `{"metadata":{"generateName":"test-"}}`).Metadata.Name
	return s
}

// path inserts the namespace: "pods" and "example.com/v1/widgets" become the paths of collections.
// The part after the resource is kept.
func (s *session) path(short string) string {
	if strings.HasPrefix(short, "/") {
		return short
	}
	resource, rest, prefix := short, "", "/api/v1"
	if cut := strings.IndexAny(resource, "?"); cut >= 0 {
		resource, rest = short[:cut], short[cut:]
	}
	for _, group := range []string{"example.com/v1", "apps/v1", "batch/v1", "coordination.k8s.io/v1", "networking.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1"} {
		if after, ok := strings.CutPrefix(resource, group+"/"); ok {
			prefix, resource = "/apis/"+group, after
		}
	}
	return prefix + "/namespaces/" + s.ns + "/" + resource + rest
}

func (s *session) do(method, path, body string, header ...string) (int, []byte) {
	s.t.Helper()
	code, raw, err := s.send(s.t.Context(), method, s.path(path), body, header...)
	require.NoError(s.t, err, "%s %s", method, path)
	return code, raw
}

// must sends a request that must succeed, and reads the object.
func (s *session) must(method, path, body string, header ...string) item {
	s.t.Helper()
	code, raw := s.do(method, path, body, header...)
	require.Less(s.t, code, 300, "%s %s: %s", method, path, raw)
	return parse[item](s.t, raw)
}

func (s *session) merge(path, patch string) item {
	s.t.Helper()
	return s.must("PATCH", path, patch, "Content-Type", "application/merge-patch+json")
}

// pods creates pods with the given names and a label app equal to the name,
// and returns the version of the last one.
func (s *session) pods(names ...string) string {
	s.t.Helper()
	rv := ""
	for _, name := range names {
		rv = s.must("POST", "pods", pod(name)).Metadata.ResourceVersion
	}
	return rv
}

func pod(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":%q}},"spec":{"containers":[{"name":"m","image":"i"}]}}`, name, name)
}

func parse[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(raw, &v), "%s", raw)
	return v
}

// item is the part of an object that the tests read.
type item struct {
	Kind       string
	APIVersion string
	Metadata   metav1.ObjectMeta
	Spec       map[string]any
	Status     any
	Data       map[string]string

	// of a Status
	Code    int
	Reason  metav1.StatusReason
	Message string
	Details *metav1.StatusDetails
}

// list is the part of a list that the tests read.
type list struct {
	Kind       string
	APIVersion string
	Metadata   metav1.ListMeta
	Items      []item
}

func (s *session) list(path string, header ...string) list {
	s.t.Helper()
	code, raw := s.do("GET", path, "", header...)
	require.Equal(s.t, 200, code, "%s: %s", path, raw)
	return parse[list](s.t, raw)
}

func (l list) names() string {
	names := []string{}
	for _, item := range l.Items {
		names = append(names, item.Metadata.Name)
	}
	return strings.Join(names, " ")
}

// stream is a JSON watch.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
}

// event is one line of a stream.
type event struct {
	Type   string
	Object item
}

func (s *session) watch(path string, header ...string) *stream {
	s.t.Helper()
	resp, err := s.open(s.t.Context(), "GET", s.path(path), "", header...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		raw, err := io.ReadAll(resp.Body)
		require.NoError(s.t, err)
		require.Equal(s.t, 200, resp.StatusCode, "%s", raw)
	}
	require.Equal(s.t, "application/json", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	return &stream{t: s.t, lines: lines}
}

func (w *stream) next() event {
	w.t.Helper()
	require.True(w.t, w.lines.Scan(), "the watch ended: %v", w.lines.Err())
	return parse[event](w.t, bytes.Clone(w.lines.Bytes()))
}

// told reads n events and returns their types and names.
func (w *stream) told(n int) string {
	w.t.Helper()
	var told []string
	for range n {
		e := w.next()
		told = append(told, e.Type+" "+e.Object.Metadata.Name)
	}
	return strings.Join(told, ", ")
}

// rest reads up to the end, which must be a regular one.
func (w *stream) rest() []event {
	w.t.Helper()
	var events []event
	for w.lines.Scan() {
		events = append(events, parse[event](w.t, bytes.Clone(w.lines.Bytes())))
	}
	require.NoError(w.t, w.lines.Err())
	return events
}
