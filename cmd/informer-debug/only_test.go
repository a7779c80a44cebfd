package main

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
)

func TestWatchOnlyChangesOfAField(t *testing.T) {
	for only, want := range map[string]string{
		"status.phase":             "update shop pods/web-1,add shop pods/web-2,delete shop pods/web-2",
		"{.metadata.labels.extra}": "update shop pods/cart-1",
		"spec.nodeName":            "",
	} {
		srv, server := debugtest.Cluster(t, apiservertest.Options{})
		var stdout, stderr debugtest.Transcript
		stderr.When("synced", func() {
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed)
			_, err := srv.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1", Labels: map[string]string{"app": "cart", "extra": "1"}},
				Spec:   corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: corev1.DefaultSchedulerName},
				Status: corev1.PodStatus{Phase: corev1.PodRunning}})
			require.NoError(t, err)
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodPending)
			require.NoError(t, srv.Delete(debugtest.Pods(), object.Key{Namespace: "shop", Name: "web-2"}))
		})
		r := finish(t, t.Context(), []string{"watch", "pods", "-n", "shop", "-o", "name", "--only", only, "--timeout", "1s", server}, around(&stdout, &stderr))
		require.Equal(t, exit.CodeTimeout, r.Code, r.ErrOut)
		require.Equal(t, want, strings.ReplaceAll(strings.TrimSpace(r.Out), "\n", ","), only)
	}
}

func TestWatchShowsOldAndNewValues(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	var stdout, stderr debugtest.Transcript
	stderr.When("synced", func() { debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed) })
	r := finish(t, t.Context(), []string{"watch", "pods", "-n", "shop", "--watch-only", "--diff", "-c", "1", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, "    status.phase: Running→Failed", r.Lines()[2])

	stdout, stderr = debugtest.Transcript{}, debugtest.Transcript{}
	stderr.When("synced", func() { debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodRunning) })
	r = finish(t, t.Context(), []string{"watch", "pods", "-n", "shop", "--watch-only", "--stage", "-o", "jsonl", "-c", "1", server}, around(&stdout, &stderr))
	var got struct {
		Changes []struct{ Path, Old, New string }
		Stages  struct{ Received, Decoded, Queued, Applied, Told time.Time }
		Latency struct{ DecodeNs, TotalNs time.Duration }
	}
	require.NoError(t, json.Unmarshal([]byte(r.Out), &got), r.Out)
	require.Equal(t, []struct{ Path, Old, New string }{{"status.phase", "Failed", "Running"}}, got.Changes)
	s := got.Stages
	require.Equal(t, got.Latency.DecodeNs, s.Decoded.Sub(s.Received))
	require.Equal(t, got.Latency.TotalNs, s.Told.Sub(s.Received))
	require.True(t, !s.Queued.Before(s.Decoded) && !s.Applied.Before(s.Queued) && !s.Told.Before(s.Applied))
}

func TestSecretsChangeWithoutTheirValues(t *testing.T) {
	safe := apiservertest.Resource{GVR: object.GVR{Group: "vault.example", Version: "v1", Resource: "clustersecrets"}, Kind: "Safe", ListKind: "SafeList", Singular: "clustersecret", Namespaced: true}
	for resource, of := range map[string]func(metav1.ObjectMeta, string) object.Object{
		"secrets": func(m metav1.ObjectMeta, value string) object.Object {
			return &corev1.Secret{ObjectMeta: m, Data: map[string][]byte{"password": []byte(value)}}
		},
		"clustersecrets": func(m metav1.ObjectMeta, value string) object.Object {
			o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(value))}}}
			o.SetGroupVersionKind(safe.GVR.GroupVersion().WithKind(safe.Kind))
			o.SetNamespace(m.Namespace)
			o.SetName(m.Name)
			o.SetAnnotations(m.Annotations)
			return o
		},
	} {
		srv, server := debugtest.Cluster(t, apiservertest.Options{Resources: []apiservertest.Resource{safe}})
		secret := func(value string) {
			_, err := srv.Put(of(metav1.ObjectMeta{Namespace: "shop", Name: "key", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: value}}, value))
			require.NoError(t, err)
		}
		secret("before")
		var stdout, stderr debugtest.Transcript
		stderr.When("synced", func() { secret("after") })
		r := finish(t, t.Context(), []string{"watch", resource, "-n", "shop", "--watch-only", "--diff", "-o", "wide", "-c", "1", server}, around(&stdout, &stderr))
		require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
		require.Equal(t, "    data.password", r.Lines()[2])
		require.NotContains(t, r.Out, "YWZ0ZXI")
		stdout, stderr = debugtest.Transcript{}, debugtest.Transcript{}
		stderr.When("synced", func() { secret("before") })
		r = finish(t, t.Context(), []string{"watch", resource, "-n", "shop", "--watch-only", "-o", "jsonl", "-c", "1", server}, around(&stdout, &stderr))
		require.Contains(t, r.Out, `"changed":["data.password",`)
		require.NotContains(t, r.Out, `"changes"`)
		for _, args := range [][]string{{"-o", "json"}, {"-o", "jsonl"}, {"-o", "jsonl", "--metadata-only"}} {
			r = invoke(t, append([]string{"watch", resource, "-n", "shop", "-c", "1", server}, args...)...)
			require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
			require.Contains(t, r.Out, "PartialObjectMetadata")
			require.NotRegexp(t, "before|YmVmb3Jl", r.Out) // the value, as text or in base64
		}
	}
}

func TestStagesInATable(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	var stdout, stderr debugtest.Transcript
	stderr.When("synced", func() { debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed) })
	r := finish(t, t.Context(), []string{"watch", "pods/web-1", "-n", "shop", "--stage", "-o", "wide", "-c", "2", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	lines := r.Lines()
	require.Equal(t, strings.Fields("TIME AGE KEY RV RECEIVED DECODED QUEUED APPLIED TOLD UID CHANGED"), strings.Fields(lines[0]))
	at := strings.Index(lines[0], "UID")
	require.Regexp(t, `^\S{36}`, lines[1][at:])
	require.Regexp(t, `^\S{36}  status.phase: `, lines[2][at:])
	require.Regexp(t, `( \d\d:\d\d:\d\d\.\d{6} ){5}`, lines[2])
}

func TestWatchRefusesUnsupportedRequests(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"pods --only {.a", "--only: jsonpath"},
		{"pods --diff -o name", "cannot be used with -o name"},
		{"pods --diff -o jsonl", "-o jsonl includes old and new values without it"},
		{"pods --only a --attach http://localhost:1", "cannot be used with --attach: the process reports keys, not objects"},
		{"pods --stage --attach http://localhost:1", "each event includes its times"},
	} {
		r := invoke(t, append([]string{"watch"}, strings.Fields(c.args)...)...)
		require.Equal(t, exit.CodeUsage, r.Code, c.args)
		require.Contains(t, r.ErrOut, c.want)
	}
}
