package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestWhyOnACluster(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "why", "po/web-1", "-n", "shop", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, "The cache has po/web-1, same as the server, at version 101.", r.Lines()[0])
	require.Len(t, r.Lines(), 4, r.Out)
	require.Equal(t, "The cache has po/web-1, same as the server, at version 101.", invoke(t, "why", "po", "web-1", "-n", "shop", server).Lines()[0])
	require.Equal(t, "The cluster has no Events for it.", r.Lines()[3])

	_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"a": []byte("hidden")}})
	require.NoError(t, err)
	r = invoke(t, "why", "secrets/key", "-n", "shop", server)
	require.Contains(t, r.Out, "Only labels are compared: contents of Secrets are not shown.")
	require.NotContains(t, r.Out, "aGlkZGVu")
	for want, args := range map[string][]string{
		"po/none is neither in the cache nor on the server":           {"po/none", "-n", "shop"},
		`"pods": without --attach, use TYPE/NAME or TYPE NAME`:        {"pods"},
		`"pods/a b": want [TYPE/]NAME, TYPE NAME or NAMESPACE/NAME`:   {"pods/a", "b"},
		`"shop/web-1" is in namespace shop, but -n is bank: omit one`: {"pods", "shop/web-1", "-n", "bank"},
		"--controller requires a process: select one with --attach":   {"pods/web-1", "--controller=keeper"},
	} {
		r := invoke(t, append([]string{"why", server}, args...)...)
		require.NotEqual(t, exit.CodeOK, r.Code)
		require.Contains(t, r.ErrOut, want)
	}
}

func TestWhyComparesAProcessWithTheServer(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	i, from, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	web, why := object.Key{Namespace: "shop", Name: "web-1"}, []string{"why", "pods in namespace shop/web-1", "--attach=" + at.URL, server}

	r := invoke(t, why...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Lines()[2], ", same as the server, at version 101.")
	require.NotContains(t, r.Out, "From the cache to the server", "a Go type and the server write the same object")

	found, ok := i.Cache().Get(web)
	require.True(t, ok)
	found.Labels["app"] = "evil" // a program that writes to a shared object
	r = invoke(t, why...)
	require.Contains(t, r.Lines()[2], "The cache has pods in namespace shop/web-1 with the server's version 101, and 1 fields differ: a transform or Keep changed them, or the program has written to the cached object, or to another that shares memory with it.")
	require.Contains(t, r.Out, "From the cache to the server:\n  metadata.labels.app: evil→web\n")
	found.Labels["app"] = "web"

	from.ignore(web)
	debugtest.Put(t, srv, web, corev1.PodFailed)
	r = invoke(t, why...)
	require.Contains(t, r.Lines()[2], "The cache has version 101 of pods in namespace shop/web-1, and the server version 104: the cache is complete up to version 103, and the change is on its way.")
	require.Contains(t, r.Out, "From the cache to the server:\n  status.phase: Running→Failed\n")

	debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "cart-2"}, corev1.PodRunning)
	require.NoError(t, i.WaitForRV(t.Context(), srv.RV()))
	r = invoke(t, why...)
	require.Contains(t, r.Lines()[2], "and should have it: see informer-debug check --attach "+at.URL+".")

	require.NoError(t, srv.Delete(debugtest.Pods(), web))
	r = invoke(t, why...)
	require.Contains(t, r.Lines()[2], "is in the cache, complete up to version 105, and not on the server. Its deletion is on its way, or was missed: see informer-debug check --attach "+at.URL+".")
	debugtest.Put(t, srv, web, corev1.PodRunning)
	r = invoke(t, why...)
	require.Contains(t, r.Lines()[2], "was deleted and created again, and the cache has the previous one")
	r = invoke(t, "why", "pods in namespace shop/cart-2", "--attach="+at.URL, server)
	require.Regexp(t, `\n\n.*informer pods in namespace shop +applied`, r.Out)
}

// Heads have labels, so that a handler that changes them shows without contents.
func TestWhyComparesLabelsWithoutContents(t *testing.T) {
	p := newSick(t)
	p.put("web-1")
	p.run()
	shows := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(p.factory)}))
	defer shows.Close()
	at := "--attach=" + shows.URL
	require.Equal(t, exit.CodeOK, invoke(t, "wait", "pods", "--for=synced", at).Code)
	found, ok := p.pods.Cache().Get(object.Key{Namespace: "shop", Name: "web-1"})
	require.True(t, ok)
	r := invoke(t, "why", "pods/web-1", "-n", "shop", at, p.address)
	require.NotContains(t, r.Out, "From the cache to the server")
	found.Labels["app"] = "evil"
	r = invoke(t, "why", "pods/web-1", "-n", "shop", at, p.address)
	require.Contains(t, r.Out, "and 1 fields differ: a transform or Keep changed them, or the program has written to the cached object")
	require.Contains(t, r.Out, "Only labels are compared: this process shows no contents: manager.Options.DebugContents or debug.Options.Contents ")
	require.Contains(t, r.Out, "From the cache to the server:\n  metadata.labels.app: evil→")
}

// An informer's name says which objects it leaves out.
func TestWhySaysWhichScopeLeavesAnObjectOut(t *testing.T) {
	p := newSick(t)
	p.put("web-1")
	debugtest.Put(t, p.server, object.Key{Namespace: "bank", Name: "api-1"}, corev1.PodRunning)
	p.pods = nil
	p.factory = factory.New(p.client, factory.Options{Scope: factory.Scope{Namespaces: []string{"shop"}, Labels: labels.Set{"app": "none"}.AsSelector()}, Flight: p.recorder})
	factory.Informer[*corev1.Pod](p.factory)
	at := p.run()
	require.Equal(t, exit.CodeOK, invoke(t, "wait", "pods", "--for=synced", at).Code)
	const holds = "is on the server but not in the cache, which contains pods in namespace shop with labels app=none: "
	require.Contains(t, invoke(t, "why", "pods/api-1", "-n", "bank", at, p.address).Out, "pods/api-1 "+holds+"its namespace is bank.\n")
	require.Contains(t, invoke(t, "why", "pods/web-1", "-n", "shop", at, p.address).Out, "pods/web-1 "+holds+"its labels do not match app=none.\n")
}

// The reasons are printed before the server is queried, because it may not answer.
func TestWhyPrintsReasonsBeforeQueryingTheServer(t *testing.T) {
	process := httptest.NewServer(program(t, false))
	defer process.Close()
	var stdout, stderr debugtest.Transcript
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !asked.Swap(true) {
			assert.Contains(t, stdout.String(), "The controller keeper failed on shop/bad ")
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	r := finish(t, t.Context(), []string{"why", "shop/bad", "--attach=" + process.URL, "--server=" + server.URL}, around(&stdout, &stderr))
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.True(t, asked.Load())
	require.Regexp(t, `\nNot compared with the server: unknown\.\n`, r.Out)
	require.Contains(t, r.Out, "controller keeper ", "the flight recorder's entries come all the same")
}

// Without a namespace, the object is searched in the caches, or in the namespace of the kubeconfig.
func TestWhyFindsTheNamespace(t *testing.T) {
	p := newSick(t)
	p.put("web-1")
	other := factory.New(p.client, factory.Options{Namespaces: []string{"bank"}, Flight: p.recorder})
	factory.Informer[*corev1.Pod](other)
	at := p.run(other)
	require.Equal(t, exit.CodeOK, invoke(t, "wait", "pods", "--for=synced", at).Code)
	require.Contains(t, invoke(t, "why", "web-1", at, p.address).Out, "The cache has pods in namespace shop/web-1, same as the server")
	r := invoke(t, "why", "none", at, p.address)
	require.Equal(t, exit.CodeUnavailable, r.Code, r.Out)
	require.Contains(t, r.Lines()[0], "default/none is in no cache")
	r = invoke(t, "why", "pods/none", at, p.address)
	require.Contains(t, r.Out, "pods/none is neither in the cache nor on the server.")
	require.Contains(t, r.ErrOut, "pods/none is in no cache, and not on the server\n")
	debugtest.Put(t, p.server, object.Key{Namespace: "bank", Name: "web-1"}, corev1.PodRunning)
	require.Eventually(t, func() bool {
		r = invoke(t, "why", "web-1", at, p.address)
		return r.Code == exit.CodeUsage
	}, 10*time.Second, time.Millisecond)
	require.Contains(t, r.ErrOut, "web-1 is in several namespaces: bank, shop. Specify one")
}

// event writes an Event of shop/web-1 that is some minutes old.
func event(t *testing.T, srv *apiservertest.Server, name string, minutes int, change ...func(*corev1.Event)) {
	t.Helper()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-24 * time.Hour))},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1"},
		Type:           corev1.EventTypeNormal, Reason: "Pulled", Message: "said " + name,
		LastTimestamp: metav1.NewTime(time.Now().Add(-time.Duration(minutes) * time.Minute)),
	}
	for _, f := range change {
		f(e)
	}
	_, err := srv.Put(e)
	require.NoError(t, err)
}

// The last Events of an object are shown, newest last, without Events of other objects.
func TestWhyShowsEvents(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	pod, err := srv.Get(debugtest.Pods(), object.Key{Namespace: "shop", Name: "web-1"})
	require.NoError(t, err)
	why := []string{"why", "po/web-1", "-n", "shop", server}
	event(t, srv, "c", 10, func(e *corev1.Event) { e.InvolvedObject.UID = pod.GetUID() })
	event(t, srv, "a", 0, func(e *corev1.Event) { // in the form of events.k8s.io
		e.Type, e.Reason, e.Message, e.LastTimestamp = corev1.EventTypeWarning, "BackOff", "one\x1b[2J\ntwo", metav1.Time{}
		e.EventTime = metav1.NewMicroTime(time.Now().Add(-time.Hour))
		e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(time.Now().Add(-5 * time.Minute))}
	})
	event(t, srv, "b", 60, func(e *corev1.Event) { e.Count = 3 })
	event(t, srv, "former", 1, func(e *corev1.Event) { e.InvolvedObject.UID = "of the pod before" })
	event(t, srv, "other", 1, func(e *corev1.Event) { e.InvolvedObject.Name = "web-2" })
	event(t, srv, "deployment", 1, func(e *corev1.Event) { e.InvolvedObject.Kind = "Deployment" })
	requests := 0
	srv.SetAuthorizer(func(a apiservertest.Attributes) bool {
		if a.Resource == "events" {
			requests++
		}
		return true
	})
	r := invoke(t, why...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, 1, requests)
	require.Regexp(t, `\nEvents for it in the cluster:\n`+
		`  AGE +TYPE +REASON +COUNT +MESSAGE\n`+
		`  60m +Normal +Pulled +3 +said b\n`+
		`  10m +Normal +Pulled +1 +said c\n`+
		`  5m\d*s? +Warning +BackOff +7 +one \[2J two\n$`, r.Out)

	for n := range 10 {
		event(t, srv, fmt.Sprint("more-", n), 20+n)
	}
	r = invoke(t, why...)
	require.Contains(t, r.Out, "\nThe last 10 of 13 Events for it in the cluster:\n")
	lines := r.Lines()
	require.Len(t, lines[len(lines)-11:], 11)
	require.Contains(t, lines[len(lines)-10], "said more-7")
	require.Contains(t, lines[len(lines)-1], "BackOff")

	srv.SetAuthorizer(apiservertest.Deny("", "events"))
	r = invoke(t, why...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `\nNot allowed to read its Events: .*events is forbidden: .*\n$`, r.Out)
	srv.SetAuthorizer(nil)
	srv.Faults().Add(apiservertest.Fault{Resource: "events", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
	r = invoke(t, why...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "\nIts Events could not be read: ")

	// Events of cluster-scoped objects have a namespace.
	_, err = srv.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	require.NoError(t, err)
	srv.Faults().Clear()
	event(t, srv, "node", 1, func(e *corev1.Event) {
		e.Namespace, e.InvolvedObject = "default", corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1"}
	})
	r = invoke(t, "why", "node/n1", server)
	require.Regexp(t, `  (6\ds|1m) +Normal +Pulled +1 +said node\n$`, r.Out)
}
