package main

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestDescribeOnACluster(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "describe", "po/web-1", "-n", "shop", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, "The cache has po/web-1 as the server has it, with version 101.", r.Lines()[0])
	require.Len(t, r.Lines(), 4, r.Out)
	require.Equal(t, "The cache has po/web-1 as the server has it, with version 101.", invoke(t, "describe", "po", "web-1", "-n", "shop", server).Lines()[0])
	require.Equal(t, "The cluster has no Events of it.", r.Lines()[3])

	_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"a": []byte("hidden")}})
	require.NoError(t, err)
	r = invoke(t, "describe", "secrets/key", "-n", "shop", server)
	require.Contains(t, r.Out, "Fields are not compared: contents of Secrets are not shown.")
	require.NotContains(t, r.Out, "aGlkZGVu")
	for want, args := range map[string][]string{
		"po/none is neither in the cache nor on the server":       {"po/none", "-n", "shop"},
		`"pods": want TYPE/NAME or TYPE NAME`:                     {"pods"},
		`"pods/a b": want TYPE/NAME or TYPE NAME`:                 {"pods/a", "b"},
		"an object by its name is in one namespace: leave out -A": {"pods/web-1", "-A"},
	} {
		r := invoke(t, append([]string{"describe", server}, args...)...)
		require.NotEqual(t, exit.CodeOK, r.Code)
		require.Contains(t, r.ErrOut, want)
	}
}

func TestDescribeComparesAProcessWithTheServer(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	i, from, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	web, describe := object.Key{Namespace: "shop", Name: "web-1"}, []string{"describe", "pods in namespace shop/web-1", "--attach=" + at.URL, server}

	r := invoke(t, describe...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Lines()[0], "as the server has it, with version 101.")
	require.NotContains(t, r.Out, "From the cache to the server", "a Go type and the server write the same object")

	from.ignore(web)
	debugtest.Put(t, srv, web, corev1.PodFailed)
	r = invoke(t, describe...)
	require.Contains(t, r.Lines()[0], "The cache has version 101 of pods in namespace shop/web-1, and the server version 104: the cache is complete up to version 103, and the change is on its way.")
	require.Contains(t, r.Out, "From the cache to the server:\n  status.phase: Running→Failed\n")

	debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "cart-2"}, corev1.PodRunning)
	require.NoError(t, i.WaitForRV(t.Context(), srv.RV()))
	r = invoke(t, describe...)
	require.Contains(t, r.Lines()[0], "and should have it: see informer-debug check")

	require.NoError(t, srv.Delete(debugtest.Pods(), web))
	r = invoke(t, describe...)
	require.Contains(t, r.Lines()[0], "is in the cache, complete up to version 105, and not on the server.")
	debugtest.Put(t, srv, web, corev1.PodRunning)
	r = invoke(t, describe...)
	require.Contains(t, r.Lines()[0], "was deleted and made again, and the cache has the one before")
	r = invoke(t, "describe", "pods in namespace shop/cart-2", "--attach="+at.URL, server)
	require.Regexp(t, `\n\n.*informer pods in namespace shop +applied`, r.Out)
}

func TestDescribeSaysWhatControllersDo(t *testing.T) {
	process := httptest.NewServer(program(t, true))
	defer process.Close()
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "describe", "pods/bad", "-n", "shop", "--attach="+process.URL, server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Lines()[0], "pods/bad is in the cache, complete up to version ")
	require.Contains(t, r.Out, "The controller keeper failed on shop/bad")
	require.NotContains(t, r.Out, "\x1b")
	r = invoke(t, "describe", "pods/bad", "--attach="+process.URL, server)
	require.Equal(t, exit.CodeUsage, r.Code)
	require.Contains(t, r.ErrOut, "pods/bad is in a namespace: say which with -n")
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

// The last Events of an object are shown, the newest last, and those of others are not.
func TestDescribeShowsEvents(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	pod, err := srv.Get(debugtest.Pods(), object.Key{Namespace: "shop", Name: "web-1"})
	require.NoError(t, err)
	describe := []string{"describe", "po/web-1", "-n", "shop", server}
	event(t, srv, "c", 10, func(e *corev1.Event) { e.InvolvedObject.UID = pod.GetUID() })
	event(t, srv, "a", 0, func(e *corev1.Event) { // as events.k8s.io has them
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
	r := invoke(t, describe...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, 1, requests)
	require.Regexp(t, `\nEvents of it in the cluster:\n`+
		`  AGE +TYPE +REASON +COUNT +MESSAGE\n`+
		`  60m +Normal +Pulled +3 +said b\n`+
		`  10m +Normal +Pulled +1 +said c\n`+
		`  5m\d*s? +Warning +BackOff +7 +one \[2J two\n$`, r.Out)

	for n := range 10 {
		event(t, srv, fmt.Sprint("more-", n), 20+n)
	}
	r = invoke(t, describe...)
	require.Contains(t, r.Out, "\nThe last 10 of 13 Events of it in the cluster:\n")
	lines := r.Lines()
	require.Len(t, lines[len(lines)-11:], 11)
	require.Contains(t, lines[len(lines)-10], "said more-7")
	require.Contains(t, lines[len(lines)-1], "BackOff")

	srv.SetAuthorizer(apiservertest.Deny("", "events"))
	r = invoke(t, describe...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `\nIts Events may not be read: .*events is forbidden: .*\n$`, r.Out)
	srv.SetAuthorizer(nil)
	srv.Faults().Add(apiservertest.Fault{Resource: "events", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
	r = invoke(t, describe...)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "\nIts Events could not be read: ")

	// Events of what has no namespace are in one.
	_, err = srv.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	require.NoError(t, err)
	srv.Faults().Clear()
	event(t, srv, "node", 1, func(e *corev1.Event) {
		e.Namespace, e.InvolvedObject = "default", corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1"}
	})
	r = invoke(t, "describe", "node/n1", server)
	require.Regexp(t, `  (6\ds|1m) +Normal +Pulled +1 +said node\n$`, r.Out)
}
