package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
)

// around returns the surroundings of a test.
func around(stdout, stderr *debugtest.Transcript) surroundings {
	return surroundings{
		Streams: debugtest.Onto(stdout, stderr),
		listen:  func(srv *apiservertest.Server) (*apiservertest.Endpoint, error) { return srv.Pipe() },
	}
}

// invoke runs the program. The test fails if the run does not end.
func invoke(t *testing.T, args ...string) debugtest.Result {
	t.Helper()
	var stdout, stderr debugtest.Transcript
	return finish(t, t.Context(), args, around(&stdout, &stderr))
}

func finish(t *testing.T, ctx context.Context, args []string, s surroundings) debugtest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	code := run(ctx, args, s)
	r := debugtest.Result{Code: code, Out: s.Out.(*debugtest.Transcript).String(), ErrOut: s.Err.(*debugtest.Transcript).String()}
	require.NotErrorIs(t, ctx.Err(), context.DeadlineExceeded, "the run did not end\nstdout: %s\nstderr: %s", r.Out, r.ErrOut)
	return r
}

func TestWatchTable(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "watch", "pods", "-A", "-c", "3", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	lines := r.Lines()
	require.Len(t, lines, 4, r.Out)
	require.Equal(t, []string{"TIME", "AGE", "KEY", "RV", "DECODE", "QUEUE", "APPLY", "DELIVER"}, strings.Fields(lines[0]))
	at := strings.Index(lines[0], "KEY")
	for i, key := range []string{"bank/api-1", "shop/cart-1", "shop/web-1"} {
		line := lines[i+1]
		assert.True(t, strings.HasPrefix(line, "+ "), line)
		assert.True(t, strings.HasPrefix(line[at:], key+" "), "column KEY of %q", line)
		assert.True(t, strings.HasSuffix(line, "  initial"), line)
	}
	assert.NotContains(t, r.Out+r.ErrOut, "\x1b", "colour without a terminal")
	assert.Contains(t, r.ErrOut, "Watching      from rv 103")
	assert.Contains(t, r.ErrOut, "changes       0 added, 0 updated, 0 deleted, 3 initial")

	r = invoke(t, "watch", "po", "-n", "bank", "-c", "1", "--no-headers", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Len(t, r.Lines(), 1, r.Out)
}

func TestWatchShowsEachKindOfChange(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	web := object.Key{Namespace: "shop", Name: "web-1"}
	var stdout, stderr debugtest.Transcript
	stderr.When("synced", func() {
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodPending)
		debugtest.Put(t, srv, web, corev1.PodFailed)
		require.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), web))
	})
	r := finish(t, t.Context(), []string{"watch", "pods", "-A", "-o", "wide", "--watch-only", "-c", "3", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	lines := r.Lines()
	require.Len(t, lines, 4, r.Out)
	for i, want := range []string{"+ shop/web-2 104", "~ shop/web-1 105", "- shop/web-1 106"} {
		f := strings.Fields(lines[i+1])
		require.GreaterOrEqual(t, len(f), 10, lines[i+1])
		assert.Equal(t, want, strings.Join([]string{f[0], f[3], f[4]}, " "))
		assert.Len(t, f[9], 36, "UID in %q", lines[i+1])
	}
	assert.True(t, strings.HasSuffix(lines[2], "status.phase: Running→Failed"), lines[2])
	assert.Contains(t, r.ErrOut, "changes       1 added, 1 updated, 1 deleted, 3 initial")
	assert.Contains(t, r.ErrOut, "latency       p50 ")
}

func TestWatchJSON(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	var stdout, stderr debugtest.Transcript
	stderr.When("synced", func() { debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed) })
	r := finish(t, t.Context(), []string{"watch", "pods", "-n", "shop", "-o", "jsonl", "-c", "3", server}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	type line struct {
		Type, Key, UID, RV, Resource string
		Time                         time.Time
		Initial                      bool
		Changed                      []string
		Latency                      *struct{ DecodeNs, QueueNs, ApplyNs, DeliverNs, TotalNs int64 }
		Object                       struct {
			Kind   string
			Status struct{ Phase string }
		}
	}
	var got []line
	for _, text := range r.Lines() {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		got = append(got, l)
	}
	require.Len(t, got, 3)
	assert.Equal(t, "add shop/cart-1 true", fmt.Sprint(got[0].Type, " ", got[0].Key, " ", got[0].Initial))
	assert.Nil(t, got[0].Latency)
	last := got[2]
	assert.Equal(t, "update shop/web-1 false", fmt.Sprint(last.Type, " ", last.Key, " ", last.Initial))
	assert.Equal(t, []string{"status.phase"}, last.Changed)
	assert.Equal(t, "Pod Failed pods", last.Object.Kind+" "+last.Object.Status.Phase+" "+last.Resource)
	require.NotNil(t, last.Latency)
	l := last.Latency
	assert.Equal(t, l.TotalNs, l.DecodeNs+l.QueueNs+l.ApplyNs+l.DeliverNs)
	assert.Positive(t, l.DecodeNs)

	r = invoke(t, "watch", "pods", "-n", "bank", "-o", "json", "-c", "1", server)
	assert.True(t, strings.HasPrefix(r.Out, "{\n    \"type\": \"add\","), r.Out)
	assert.True(t, json.Valid([]byte(r.Out)), r.Out)

	r = invoke(t, "watch", "pods", "-A", "-o", "name", "-c", "3", server)
	assert.Equal(t, "add bank pods/api-1\nadd shop pods/cart-1\nadd shop pods/web-1\n", r.Out)
}

// The first line shows which objects are selected: without a scope it would be bank/api-1.
func TestWatchScopes(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	for name, c := range map[string]struct {
		want string
		args []string
	}{
		"label":     {"cart-1", []string{"-A", "-l", "app=cart"}},
		"field":     {"web-1", []string{"-A", "--field-selector", "metadata.name=web-1"}},
		"namespace": {"cart-1", []string{"-n", "shop"}},
		"all":       {"web-1", []string{"-n", "shop", "-l", "app!=cart", "--field-selector", "status.phase=Running"}},
		"list":      {"cart-1", []string{"-A", "-l", "app=cart", "--initial", "list"}},
		"watchlist": {"cart-1", []string{"-A", "-l", "app=cart", "--initial", "watchlist"}},
		"metadata":  {"cart-1", []string{"-A", "-l", "app=cart", "--metadata-only"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := invoke(t, append([]string{"watch", "pods", "-o", "name", "-c", "1", server}, c.args...)...)
			assert.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
			assert.Equal(t, "add shop pods/"+c.want+"\n", r.Out)
			assert.Equal(t, name == "list", strings.Contains(r.ErrOut, "Listing"), r.ErrOut)
		})
	}
}

func TestMetadataOnlyAsksForNoMore(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "watch", "pods", "-A", "-o", "jsonl", "-c", "1", "--metadata-only", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	assert.Contains(t, r.Out, `"kind":"Pod"`)
	assert.NotContains(t, r.Out, `"status"`)
}

func TestStreamingListRefused(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused})
	r := invoke(t, "watch", "pods", "-A", "-c", "3", server)
	assert.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	assert.Contains(t, r.ErrOut, "Listing")
	r = invoke(t, "watch", "pods", "-A", "-c", "3", "--initial", "watchlist", server)
	assert.Equal(t, exit.CodeUsage, r.Code, r.ErrOut)
	assert.Contains(t, r.ErrOut, "check --field-selector, --selector and --initial")
}

func TestWatchCustomResource(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{Resources: []apiservertest.Resource{{
		GVR: object.GVR{Group: "stable.example.com", Version: "v1", Resource: "crontabs"}, Kind: "CronTab", Namespaced: true,
	}}})
	tab := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"cron": "* * * * *"}}}
	tab.SetAPIVersion("stable.example.com/v1")
	tab.SetKind("CronTab")
	tab.SetNamespace("default")
	tab.SetName("nightly")
	_, err := srv.Create(tab)
	require.NoError(t, err)
	for _, name := range []string{"crontabs", "crontab.v1.stable.example.com", "CronTab.stable.example.com"} {
		r := invoke(t, "watch", name, "-o", "name", "-c", "1", server)
		assert.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
		assert.Equal(t, "add default crontabs.stable.example.com/nightly\n", r.Out)
	}
}

func TestBadUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"watch", "specify the type to watch"},
		{"watch pods web-1", "for a single object use pods/web-1"},
		{"watch pods/web-1/x", "want TYPE or TYPE/NAME"},
		{"watch pods/", "want TYPE or TYPE/NAME"},
		{"watch pods.", "want TYPE[.VERSION][.GROUP]"},
		{"watch pods -n shop -A", "cannot be used together"},
		{"watch pods -c -1", "--count must not be negative, got -1"},
		{"watch pods --timeout -1s", "--timeout must not be negative, got -1s"},
		{"watch pods --timeout soon", "invalid duration"},
		{"watch pods --request-timeout -1s", "--request-timeout must not be negative, got -1s"},
		{"watch pods -l a=b=c", "--selector"},
		{"watch pods -n shop,bank", "one namespace"},
		{"watch pods --field-selector phase", "--field-selector"},
		{"watch pods -o yaml", "want one of wide, json, jsonl, name"},
		{"watch pods --initial never", "want one of auto, watchlist, list"},
		{"watch pods --as-group ops", "require --as"},
		{"watch pods --insecure-skip-tls-verify --certificate-authority ca.pem", "cannot be used together"},
		{"watch pods --no-such-flag", "unknown flag"},
		{"wach pods", "unknown command"},
		{"demo pods nodes", "2 arguments: want demo"},
		{"demo secrets", "invalid argument"},
		{"demo --rate 0", "--rate must be positive and at most"},
		{"demo --rate NaN", "changes per second, got NaN"},
		{"demo --duration -1s", "--duration must not be negative, got -1s"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := invoke(t, strings.Fields(c.args)...)
			assert.Equal(t, exit.CodeUsage, r.Code, r.ErrOut)
			assert.Empty(t, r.Out)
			assert.Contains(t, r.ErrOut, c.want)
			assert.Contains(t, r.ErrOut, "--help")
		})
	}
}

func TestUnavailable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	garbage := filepath.Join(dir, "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("\tnot: [yaml"), 0o600))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed.Close()

	srv, server := debugtest.Cluster(t, apiservertest.Options{Tokens: map[string]string{"good": "alice"}})
	srv.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "secrets" && a.Verb != "delete" })
	dead := "http://" + closed.Addr().String()
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"no config", []string{"pods"}, exit.CodeUnavailable, []string{"informer-debug: no configuration", "set KUBECONFIG"}},
		{"no file", []string{"pods", "--kubeconfig", filepath.Join(dir, "missing")}, exit.CodeUnavailable, []string{"informer-debug: kubeconfig", "no such file"}},
		{"bad file", []string{"pods", "--kubeconfig", garbage}, exit.CodeUnavailable, []string{"informer-debug: kubeconfig " + garbage}},
		{"unreachable", []string{"pods", "--server", dead}, exit.CodeUnavailable, []string{"! ", "connection refused", "cannot reach " + dead}},
		{"unknown type", []string{"deploymets", server, "--token=good"}, exit.CodeUnavailable, []string{`resource "deploymets"`, "did you mean deployments.apps?"}},
		{"unauthorised", []string{"pods", server, "--token=s3cret"}, exit.CodeUnavailable, []string{"Unauthorized", "does not accept the credentials"}},
		{"forbidden", []string{"secrets", server, "--token=good"}, exit.CodeUnavailable, []string{"informer-debug: list: forbidden: ", `User "alice" cannot list resource "secrets"`, "kubectl auth can-i"}},
		{"forbidden to another", []string{"secrets", server, "--token=good", "--as=bob"}, exit.CodeUnavailable, []string{`User "bob" cannot list`}},
		{"field not known", []string{"pods", server, "--token=good", "--field-selector=spec.color=red"}, exit.CodeUsage, []string{"field label not supported: spec.color", "check --field-selector"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := invoke(t, append([]string{"watch"}, c.args...)...)
			assert.Equal(t, c.code, r.Code, r.ErrOut)
			assert.Empty(t, r.Out)
			for _, text := range c.want {
				assert.Contains(t, r.ErrOut, text)
			}
			assert.NotContains(t, r.ErrOut, "s3cret")
		})
	}
}

func TestInterruptEndsGracefully(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	ctx, interrupt := context.WithCancel(t.Context())
	var stdout, stderr debugtest.Transcript
	stderr.When("synced", interrupt)
	r := finish(t, ctx, []string{"watch", "pods", "-A", server}, around(&stdout, &stderr))
	assert.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	assert.Len(t, r.Lines(), 4)
	assert.Contains(t, r.ErrOut, "stopped ")
}

func TestColorOnlyOnTerminals(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	for _, c := range []struct {
		name             string
		out, err         bool
		env              map[string]string
		colOut, colError bool
	}{
		{"both", true, true, nil, true, true},
		{"stdout piped", false, true, nil, false, true},
		{"stderr piped", true, false, nil, true, false},
		{"NO_COLOR", true, true, map[string]string{"NO_COLOR": "1"}, false, false},
		{"dumb", true, true, map[string]string{"TERM": "dumb"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr debugtest.Transcript
			s := around(&stdout, &stderr)
			s.OutTerminal, s.ErrTerminal = c.out, c.err
			s.Env = func(name string) string { return c.env[name] }
			r := finish(t, t.Context(), []string{"watch", "pods", "-A", "-c", "1", server}, s)
			assert.Equal(t, exit.CodeOK, r.Code)
			assert.Equal(t, c.colOut, strings.Contains(r.Out, "\x1b["), "stdout %q", r.Out)
			assert.Equal(t, c.colError, strings.Contains(r.ErrOut, "\x1b["), "stderr %q", r.ErrOut)
		})
	}
}

// broken is a stdout on a full disk.
type broken struct{ debugtest.Transcript }

func (*broken) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestStdoutBroken(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	var out broken
	var stderr debugtest.Transcript
	s := around(&out.Transcript, &stderr)
	s.Out = &out
	assert.Equal(t, exit.CodeRuntime, run(t.Context(), []string{"watch", "pods", "-A", server}, s))
	assert.Contains(t, stderr.String(), "informer-debug: stdout: no space left on device")
	assert.Equal(t, exit.CodeRuntime, run(t.Context(), []string{"version"}, s))
}

func TestVersionAndCompletion(t *testing.T) {
	r := invoke(t, "version")
	assert.Equal(t, exit.CodeOK, r.Code)
	assert.Contains(t, r.Out, "informer-debug ")
	assert.Contains(t, r.Out, "go1.")

	r = invoke(t, "completion", "bash")
	assert.Equal(t, exit.CodeOK, r.Code)
	assert.Contains(t, r.Out, "informer-debug")

	_, server := debugtest.Cluster(t, apiservertest.Options{})
	r = invoke(t, "__complete", "watch", server, "dep")
	assert.Contains(t, r.Lines(), "deployments.apps")
	r = invoke(t, "__complete", "watch", "--output", "")
	assert.Equal(t, []string{"wide", "json", "jsonl", "name"}, r.Lines()[:4])
}

// As a plugin of kubectl, the program prints the command to type.
func TestKubectlPluginShowsItsOwnName(t *testing.T) {
	for program, want := range map[string]string{
		"/root/.krew/bin/kubectl-informer": "kubectl informer watch",
		"kubectl-informer.exe":             "kubectl informer watch",
		"/go/bin/informer-debug":           "informer-debug watch",
	} {
		var stdout, stderr debugtest.Transcript
		s := around(&stdout, &stderr)
		s.program = program
		r := finish(t, t.Context(), []string{"watch", "--help"}, s)
		require.Zero(t, r.Code, r.ErrOut)
		require.Contains(t, r.Out, "Usage:\n  "+want)
	}
}
