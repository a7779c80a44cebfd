package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// program runs a controller of pods that can be inspected until the test ends. It fails for pods
// named bad.
func program(t *testing.T, contents bool) *debug.Process {
	t.Helper()
	srv := apiservertest.New(apiservertest.Options{})
	t.Cleanup(srv.Close)
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	require.NoError(t, err)
	recorder := flight.New(flight.DefaultSize)
	f := factory.New(client, factory.Options{Flight: recorder})
	done := make(chan struct{}, 10)
	c, err := controller.New("keeper", controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
		defer func() { done <- struct{}{} }()
		if r.Name == "bad" {
			return controller.Result{}, controller.Terminal(fmt.Errorf("no quota\x1b[2J\nfor %s", r))
		}
		return controller.Result{}, nil
	}), controller.Options{Flight: recorder})
	require.NoError(t, err)
	c.Watch(controller.For(factory.Informer[*corev1.Pod](f)))
	for _, name := range []string{"bad", "good"} {
		_, err := srv.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{"is": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "u"}},
		}, Spec: corev1.PodSpec{NodeName: "n1"}})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		f.Wait()
		client.CloseIdleConnections()
	})
	for range 2 {
		<-done
	}
	require.Eventually(t, func() bool { return c.Status().Active == 0 && c.Status().Terminal == 1 }, 10*time.Second, time.Millisecond)
	return debug.New(debug.Options{
		Informers: debug.Of(f), Controllers: func() []controller.View { return []controller.View{c} }, Recorder: recorder, Contents: contents,
	})
}

func TestWhyAndGetOfAProcess(t *testing.T) {
	process := program(t, true)
	server := httptest.NewServer(process)
	defer server.Close()
	at := "--attach=" + server.URL

	r := invoke(t, "why", "pods/bad", "-n", "shop", at)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	why, err := debug.Attach(server.URL, nil).Why(t.Context(), "pods", "", object.Key{Namespace: "shop", Name: "bad"})
	require.NoError(t, err)
	require.Regexp(t, `^The controller keeper failed on shop/bad .+ ago and will not retry \(terminal error\): .*no quota \[2J for shop/bad\.$`, r.Lines()[0])
	require.Equal(t, []string{"", "Not compared with the server: there is no kubeconfig; --kubeconfig or --server selects the cluster.", ""}, r.Lines()[len(why.Reasons):len(why.Reasons)+3])
	require.Len(t, r.Lines(), len(why.Reasons)+3+len(why.Entries))
	require.Contains(t, r.Out, "controller keeper")
	require.NotContains(t, r.Out, "\x1b")

	for _, args := range [][]string{{"good", "-n", "shop"}, {"good"}, {"shop/good"}, {"pods/good"}, {"pod", "good"}, {"pods", "shop/good"}, {"pods/shop/good"}, {"shop/good", "-n", "shop"}} {
		r = invoke(t, append(append([]string{"why"}, args...), "--last", "0", at)...)
		require.Equal(t, exit.CodeOK, r.Code, "%s: %s", args, r.ErrOut)
		require.Regexp(t, `^The controller keeper reconciled shop/good .+ ago in .+ \(success\), and nothing has requested it since\.\n\nNot compared .*\n$`, r.Out, args)
		require.Empty(t, r.ErrOut, args)
	}
	for args, want := range map[string]string{
		"pods none -n shop": "shop/none is in no cache: ", "bank/good": "bank/good is in no cache: ",
	} {
		r = invoke(t, append(append([]string{"why"}, strings.Fields(args)...), at)...)
		require.Equal(t, exit.CodeUnavailable, r.Code, r.Out)
		require.Contains(t, r.Out, want)
		require.Contains(t, r.ErrOut, "is in no cache, and the server was not queried\n")
	}
	r = invoke(t, "why", "sheep/good", "-n", "shop", at)
	require.Equal(t, exit.CodeUnavailable, r.Code, r.Out)
	require.Contains(t, r.ErrOut, `no informer is named "sheep"; available: pods`)
	require.Contains(t, invoke(t, "why", "pods/a", "b", at).ErrOut, `"pods/a b": want [TYPE/]NAME, TYPE NAME or NAMESPACE/NAME`)
	r = invoke(t, "why", "pods/none", "-n", "shop", "-o", "json", at)
	require.Contains(t, r.Out, `"cause": "not cached"`)
	require.Contains(t, r.Out, `"notCompared": "there is no kubeconfig`)
	require.Equal(t, exit.CodeUnavailable, r.Code)

	r = invoke(t, "watch", "pods/good", "--timeout=1s", at)
	require.Regexp(t, `\n! \S+  namespace     none was given: use -n to find an object in a namespace\n`, r.ErrOut)
	r = invoke(t, "watch", "pods/good", "-n", "shop", "--timeout=1s", at)
	require.NotContains(t, r.ErrOut, "none was given")

	r = invoke(t, "get", at)
	require.Regexp(t, `^INFORMER +STATE +SYNCED +OBJECTS +RV +HANDLERS +BEHIND +FAILURES\npods +Watching +true +2 +\d+ +1 +- +0\n$`, r.Out)
	r = invoke(t, "get", "pods", "-o", "wide", "-l", "is=good", at)
	require.Regexp(t, `^NAMESPACE +NAME +RV +GENERATION +OWNER +UID +LABELS\nshop +good +\d+ +1 +ReplicaSet/rs +\S+ +is=good\n$`, r.Out)
	r = invoke(t, "get", "pods", "-o", "name", at)
	require.Equal(t, "pods/bad\npods/good\n", r.Out)
	r = invoke(t, "get", "pods/good", "-n", "shop", "-o", "json", at)
	require.Contains(t, r.Out, `"nodeName": "n1"`)
	require.Empty(t, r.ErrOut)
}

func TestWaysToConnectToAProcess(t *testing.T) {
	process := program(t, false)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: process}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	r := invoke(t, "get", "-o", "name", "--attach=unix:"+socket)
	require.Equal(t, "pods\n", r.Out, r.ErrOut)

	const proxy = "/api/v1/namespaces/shop/pods/janitor-0:6060/proxy"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, proxy+"/"):
			http.StripPrefix(proxy, process).ServeHTTP(w, r)
		case strings.Contains(r.URL.Path, "/pods/closed:"):
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"kind":"Status","status":"Failure","message":"error trying to reach service: dial tcp 10.1.2.3:6060: connect: connection refused","code":503}`)
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","status":"Failure","message":"pods \"x\" is forbidden: User \"bob\" cannot get resource \"pods/proxy\"","code":403}`)
		}
	}))
	defer api.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}]}`, api.URL), 0o600))
	r = invoke(t, "get", "-o", "name", "--kubeconfig", kubeconfig, "-n", "shop", "--attach=pod/janitor-0")
	require.Equal(t, "pods\n", r.Out, r.ErrOut)
	r = invoke(t, "why", "web-1", "--kubeconfig", kubeconfig, "-n", "bank", "--attach=po/shop/janitor-0")
	require.Contains(t, r.Out, "bank/web-1 ", "the namespace of the object is not that of the pod")
	r = invoke(t, "get", "--kubeconfig", kubeconfig, "-n", "bank", "--attach=pod/shop/closed:1")
	require.Contains(t, r.ErrOut, "kubectl port-forward pod/closed -n shop 1 and")

	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	secured := httptest.NewUnstartedServer(process)
	secured.Config.ErrorLog = log.New(io.Discard, "", 0) // clients reject its certificate
	secured.StartTLS()
	defer secured.Close()
	closed := httptest.NewServer(process)
	closed.Close()
	_, clusterFlag := debugtest.Cluster(t, apiservertest.Options{})
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<html><title>502 Bad Gateway</title></html>")
	}))
	defer strange.Close()
	for _, c := range []struct {
		attach, want string
		code         int
	}{
		{"pod/closed", "error trying to reach service: dial tcp 10.1.2.3:6060: connect: connection refused (HTTP 503)\n  if the process listens only on its pod's loopback interface, use kubectl port-forward pod/closed -n shop 6060 and --attach http://localhost:6060", exit.CodeUnavailable},
		{"pod/other:1", `cannot get resource "pods/proxy" (HTTP 403)` + "\n  request the verb \"get\" on pods/proxy, or use kubectl port-forward pod/other -n shop 1 and --attach http://localhost:1", exit.CodeUnavailable},
		{nothing.URL, "404 page not found (HTTP 404)\n  nothing is served at /debug/millrace/ there", exit.CodeUnavailable},
		{closed.URL, "connection refused\n  is the process running there, and does it serve /debug/millrace/? A manager does so at its PprofBindAddress", exit.CodeUnavailable},
		{answers(t, http.StatusUnauthorized, "Unauthorized").URL, "Unauthorized (HTTP 401)\n  the process checks tokens with its API server: use --token", exit.CodeUnavailable},
		{answers(t, http.StatusForbidden, "Forbidden").URL, "Forbidden (HTTP 403)\n  the process checks access with its API server: grant it with a ClusterRole for nonResourceURLs", exit.CodeUnavailable},
		{answers(t, http.StatusNotFound, "Unknown profile").URL + "/debug/pprof", "Unknown profile (HTTP 404)\n  attach to the address only, without /debug/pprof", exit.CodeUnavailable},
		{":6060", `--attach ":6060": use http://localhost:6060`, exit.CodeUsage},
		{"6060", `--attach "6060": use http://localhost:6060`, exit.CodeUsage},
		{"", "specify the types to watch", exit.CodeUsage},
		{strings.TrimPrefix(clusterFlag, "--server="), "the server could not find the requested resource (HTTP 404)\n  this is an API server, not a process with informers", exit.CodeUnavailable},
		{strange.URL, "is not a Millrace process: it sent \"text/html\" (HTTP 502)\n", exit.CodeUnavailable},
		{"localhost:6060", `--attach "localhost:6060": use http://localhost:6060, or https:// if it serves TLS`, exit.CodeUsage},
		{secured.URL, "(tls-server-name)\n  use --certificate-authority to specify", exit.CodeUnavailable},
		{strings.Replace(secured.URL, "https:", "http:", 1), "Client sent an HTTP request to an HTTPS server (HTTP 400)\n  it serves TLS: attach to an https:// URL", exit.CodeUnavailable},
		{strings.Replace(nothing.URL, "http:", "https:", 1), "\n  it does not serve TLS: attach to an http:// URL", exit.CodeUnavailable},
		{"janitor", `--attach "janitor": want a URL, unix:PATH or pod/[NAMESPACE/]NAME[:PORT]`, exit.CodeUsage},
		{"pod/a/b/c", "want pod/[NAMESPACE/]NAME[:PORT]", exit.CodeUsage},
		{"pod//b", "want pod/[NAMESPACE/]NAME[:PORT]", exit.CodeUsage},
		{"pod/Shop/b", "want pod/[NAMESPACE/]NAME[:PORT]", exit.CodeUsage},
		{"pod/shop/", "want pod/[NAMESPACE/]NAME[:PORT]", exit.CodeUsage},
		{"pod/a:60/1", "want pod/[NAMESPACE/]NAME[:PORT]", exit.CodeUsage},
		{"pod/a:debug", `port "debug" is not a number from 1 to 65535`, exit.CodeUsage},
		{"HTTP://bob:secret@localhost:1", "contains a user name: remove it", exit.CodeUnavailable},
		{"htp://bob:secret@localhost", "--attach: want a URL", exit.CodeUsage},
		{"http://bob:secret@[", "want a URL such as", exit.CodeUsage},
	} {
		r := invoke(t, "get", "--kubeconfig", kubeconfig, "-n", "shop", "--attach", c.attach)
		require.Equal(t, c.code, r.Code, c.attach)
		require.Contains(t, r.ErrOut, c.want)
		require.NotContains(t, r.ErrOut, "secret")
	}
	for _, args := range [][]string{{"get", "po"}, {"why", "pod/web-1"}, {"wait", "pods", "--for=synced"}, {"doctor"}, {"shards"}, {"check"}, {"top"}} {
		r := invoke(t, append(args, "-n", "no such", "--attach=unix:"+socket)...)
		require.Equal(t, exit.CodeUsage, r.Code, args)
		require.Contains(t, r.ErrOut, `--namespace "no such": want the name of one namespace`)
	}
	healthy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ok"}`)
	}))
	defer healthy.Close()
	for _, args := range [][]string{{"get"}, {"get", "pods"}, {"why", "pods/x", "-n", "shop"}, {"doctor"}, {"wait", "pods", "--for=synced"}, {"check"}, {"watch", "pods"}, {"churn"}} {
		r := invoke(t, append(args, "--attach", healthy.URL, "--kubeconfig", kubeconfig)...)
		require.Equal(t, exit.CodeUnavailable, r.Code, args)
		require.Contains(t, r.ErrOut, `is not a Millrace process: it sent "application/json"`, args)
	}
	r = invoke(t, "churn", "sheep", "--attach=unix:"+socket)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, `no informer is named "sheep"; available: pods`)
	for _, typ := range []string{"po", "pod", "pods"} {
		r := invoke(t, "get", typ, "-n", "shop", "-o", "name", "--attach=unix:"+socket)
		require.Equal(t, "pods/bad\npods/good\n", r.Out, r.ErrOut)
	}
	r = invoke(t, "get", "--token", "t", "--attach=http://localhost:1")
	require.Contains(t, r.ErrOut, "--token would be sent in clear text")
	r = invoke(t, "get", "pods/good", "-n", "shop", "-o", "json", "--attach=unix:"+socket)
	require.Contains(t, r.ErrOut, "only the metadata of 1 of 1 objects is shown: this process shows no contents")
	require.Contains(t, r.Out, `"kind": "PartialObjectMetadata"`)
	require.NotContains(t, r.Out, "nodeName")
	r = invoke(t, "get", "pods/", "--attach=unix:"+socket)
	require.Equal(t, exit.CodeUsage, r.Code, "no name does not mean all")
	require.Equal(t, "a b c [2Jd", terminal.OneLine("a\nb\u009bc\x1b[2Jd\u202e"))
}

// answers is a server that answers all requests with one text.
func answers(t *testing.T, code int, text string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }))
	t.Cleanup(server.Close)
	return server
}

// Controllers, the keys of a queue and the stacks of calls are available, too.
func TestGetControllersAndOtherPartsOfAProcess(t *testing.T) {
	p := newSick(t)
	p.put("web-1")
	p.keeper(hang)
	at := p.run()
	require.Eventually(t, func() bool { return p.keepers[0].Status().Active == 1 && p.keepers[0].Status().Queue.Waiting == 1 }, 10*time.Second, time.Millisecond)
	require.Regexp(t, `^CONTROLLER +STATE +BUSY +WAITING +OLDEST +DELAYED +PARKED +DONE +FAILED +LAST FAILURE\nkeeper +Running +1/1 +1 +\S+ +0 +0 +0 +0 +-\n$`, invoke(t, "get", "controllers", at).Out)
	for _, args := range [][]string{{"queue", "keeper"}, {"queue"}, {"queue/keeper"}} {
		require.Regexp(t, `^KEY +STATE +FOR +DUE +FAILURES +WAITS FOR\nshop/cart-1 +running +\S+ +- +0 +-\nshop/web-1 +waiting +\S+ +- +0 +-\n$`, invoke(t, append(append([]string{"get"}, args...), at)...).Out)
	}
	require.Regexp(t, `(?m)^controller keeper, goroutines: 1\n  \S+/informer-debug\.hang \(sick_test\.go:\d+\)$`, invoke(t, "get", "stack", "keeper", at).Out)
	require.Contains(t, invoke(t, "get", "queue", "keeper", "-o", "json", at).Out, `"key": "shop/web-1"`)
	for args, want := range map[string]string{
		"controllers none": `no controller is named "none"`, "queue none": "No such controller or queue", "queue -o yaml": "-o yaml is for objects",
		"stack none": `no controller, informer or handler is named "none"; available: keeper; pods in namespace shop; controller keeper: pods in namespace shop`,
	} {
		r := invoke(t, append(append([]string{"get"}, strings.Fields(args)...), at)...)
		require.NotEqual(t, exit.CodeOK, r.Code)
		require.Contains(t, r.ErrOut, want)
	}
	require.Equal(t, exit.CodeOK, invoke(t, "get", "stack", "pods", at).Code, "an informer whose handlers are in no call")
	for _, part := range []string{"controllers", "queue", "stack"} {
		r := invoke(t, "get", part, p.address)
		require.Equal(t, exit.CodeUnavailable, r.Code)
		require.Contains(t, r.ErrOut, "\n  to show a process's "+part+", select it with --attach\n")
	}
}

// The events of a process are followed, filtered by informer and name.
func TestWatchOfAProcess(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	pods := recorder.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	nodes := recorder.Track(flight.Label{Role: flight.Informer, Name: "nodes"})
	handler := recorder.Track(flight.Label{Role: flight.Handler, Name: "main.go:7", Of: nodes})
	server := httptest.NewServer(debug.New(debug.Options{Recorder: recorder}))
	defer server.Close()
	stop := make(chan struct{})
	var recording sync.WaitGroup
	recording.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				key := object.Key{Namespace: "shop", Name: fmt.Sprint("p", n%2)}
				nodes.Record(&flight.Event{Kind: flight.Applied, Change: "update", Key: key})
				handler.Record(&flight.Event{Kind: flight.Told, Key: key})
				pods.Record(&flight.Event{Kind: flight.Applied, Change: "add", Key: key, RV: "7"})
			}
		}
	})
	defer recording.Wait()
	defer close(stop)
	r := invoke(t, "watch", "pods", "--attach", server.URL, "-c", "4")
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Len(t, r.Lines(), 4)
	require.Regexp(t, `^· \S+  attached      to `+server.URL+`, which reports events from now on\n$`, r.ErrOut)
	for _, line := range r.Lines() {
		require.Regexp(t, `^\S+ \S+  informer pods +applied shop/p[01] add rv 7$`, line)
	}
	r = invoke(t, "watch", "nodes/p1", "-n", "shop", "--attach", server.URL, "-c", "4", "-o", "jsonl")
	for _, line := range r.Lines() {
		require.Contains(t, line, `"name":"p1"`)
		require.NotContains(t, line, `"name":"pods"`)
	}
	r = invoke(t, "watch", "crontabs", "--attach", server.URL, "--timeout", "1s")
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, `no informer is named "crontabs"; available: nodes; pods`)
	require.Empty(t, r.Out)
	for _, wrong := range [][]string{{"pods", "-l", "a=b"}, {"pods", "-o", "wide"}, {"/x"}} {
		r := invoke(t, append([]string{"watch", "--attach", server.URL}, wrong...)...)
		require.Equal(t, exit.CodeUsage, r.Code, wrong)
	}
}

// A notice that events were lost is not a change.
func TestLostEventsAreNotCounted(t *testing.T) {
	mux := http.NewServeMux()
	recorder := flight.New(0)
	recorder.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	mux.Handle("/", debug.New(debug.Options{Recorder: recorder}))
	mux.HandleFunc("/debug/millrace/v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Millrace-Debug", "v1")
		fmt.Fprint(w, "event: lost\ndata: {\"count\":5}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	r := invoke(t, "watch", "pods", "-c", "1", "--timeout", "2s", "--attach="+server.URL)
	require.Equal(t, exit.CodeTimeout, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "5 events are missing here\n")
	require.Contains(t, r.ErrOut, ": 0 events in 2s")
}

// The end of a process is not reported as a requested end.
func TestWatchOfAProcessThatStops(t *testing.T) {
	recorder := flight.New(0)
	recorder.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	server := httptest.NewServer(debug.New(debug.Options{Recorder: recorder}))
	defer server.Close()
	var stdout, stderr debugtest.Transcript
	ended := make(chan debugtest.Result, 1)
	go func() {
		ended <- finish(t, t.Context(), []string{"watch", "pods", "--attach", server.URL}, around(&stdout, &stderr))
	}()
	require.Eventually(t, func() bool {
		server.CloseClientConnections()
		return len(ended) == 1
	}, 20*time.Second, 10*time.Millisecond)
	r := <-ended
	require.Equal(t, exit.CodeUnavailable, r.Code)
}

// One object is followed by its name.
func TestWatchOfOneObject(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "watch", "pods/web-1", "-n", "shop", server, "-o", "name", "--timeout", "1s")
	require.Equal(t, exit.CodeTimeout, r.Code)
	require.Equal(t, []string{"add shop pods/web-1"}, r.Lines())
}
