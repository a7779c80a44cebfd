package apiservertest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

var (
	pods    = corev1.SchemeGroupVersion.WithResource("pods")
	widgets = object.GVR{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// rig is a server and a client of it.
type rig struct {
	*apiservertest.Server
	t      *testing.T
	url    string
	client *http.Client
}

func newRig(t *testing.T, opts apiservertest.Options) *rig {
	t.Helper()
	opts.Resources = append(opts.Resources, widgetResource())
	srv := apiservertest.New(opts)
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.Close()
	})
	return &rig{Server: srv, t: t, url: endpoint.URL, client: &http.Client{Transport: transport}}
}

func widgetResource() apiservertest.Resource {
	return apiservertest.Resource{GVR: widgets, Kind: "Widget", Namespaced: true, Status: true, Generation: true}
}

// do sends a request and reads the whole response.
func (r *rig) do(method, path, body string, header ...string) (int, []byte, http.Header) {
	r.t.Helper()
	resp := r.open(method, path, body, header...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, raw, resp.Header
}

// open sends a request and leaves the response body to the caller.
func (r *rig) open(method, path, body string, header ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader([]byte(body)))
	require.NoError(r.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	require.NoError(r.t, err, "%s %s", method, path)
	r.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// status sends a request that must fail.
func (r *rig) status(method, path, body string, header ...string) metav1.Status {
	r.t.Helper()
	code, raw, _ := r.do(method, path, body, header...)
	var status metav1.Status
	require.NoError(r.t, json.Unmarshal(raw, &status), "%s", raw)
	require.Equal(r.t, "Status", status.Kind, "%s", raw)
	if status.Code != 0 {
		require.EqualValues(r.t, code, status.Code, "%s", raw)
	}
	return status
}

// list holds the tested parts of a list.
type list struct {
	Kind     string
	Metadata metav1.ListMeta
	Items    []struct {
		Kind     string
		Metadata metav1.ObjectMeta
	}
}

func (l list) names() []string {
	names := []string{}
	for _, item := range l.Items {
		names = append(names, item.Metadata.Name)
	}
	return names
}

func (r *rig) list(path string) list {
	r.t.Helper()
	code, raw, _ := r.do("GET", path, "")
	require.Equal(r.t, 200, code, "%s", raw)
	var l list
	require.NoError(r.t, json.Unmarshal(raw, &l), "%s", raw)
	return l
}

// event holds the tested parts of a watch event.
type event struct {
	Type   string
	Object struct {
		Kind     string
		Code     int
		Reason   string
		Message  string
		Metadata metav1.ObjectMeta
	}
}

func (e event) String() string {
	if e.Type == "ERROR" {
		return fmt.Sprintf("ERROR %d %s: %s", e.Object.Code, e.Object.Reason, e.Object.Message)
	}
	s := e.Type + " " + e.Object.Metadata.Name + "@" + e.Object.Metadata.ResourceVersion
	if e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		s += " end"
	}
	return s
}

// stream reads a JSON watch.
type stream struct {
	t     *testing.T
	body  io.Closer
	lines *bufio.Scanner
}

func (r *rig) watch(path string) *stream {
	r.t.Helper()
	resp := r.open("GET", path, "")
	require.Equal(r.t, 200, resp.StatusCode)
	require.Equal(r.t, "application/json", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	return &stream{t: r.t, body: resp.Body, lines: lines}
}

func (s *stream) next() string {
	s.t.Helper()
	require.True(s.t, s.lines.Scan(), "the watch ended: %v", s.lines.Err())
	var e event
	require.NoError(s.t, json.Unmarshal(s.lines.Bytes(), &e), "%s", s.lines.Bytes())
	return e.String()
}

// rest reads to the end.
func (s *stream) rest() (events []string, err error) {
	for s.lines.Scan() {
		var e event
		if err := json.Unmarshal(s.lines.Bytes(), &e); err != nil {
			return events, err
		}
		events = append(events, e.String())
	}
	return events, s.lines.Err()
}

func pod(namespace, name string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
	for i := 0; i+1 < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&p.ObjectMeta, labels[i], labels[i+1])
	}
	return p
}

func widget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec":     map[string]any{"size": size},
	}}
}

func (r *rig) create(objs ...object.Object) {
	r.t.Helper()
	for _, obj := range objs {
		_, err := r.Create(obj)
		require.NoError(r.t, err)
	}
}

func keyOf(namespace, name string) object.Key { return object.Key{Namespace: namespace, Name: name} }
