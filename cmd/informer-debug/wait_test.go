package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestWaitForAProcess(t *testing.T) {
	process := httptest.NewServer(program(t, true))
	defer process.Close()
	blind := httptest.NewServer(program(t, false))
	defer blind.Close()
	at, without := "--attach="+process.URL, "--attach="+blind.URL
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"wait", "pods", "--for=synced", at}, exit.CodeOK, "pods: 2 objects are in the cache"},
		{[]string{"wait", "pods", "--for=lag<10m", at}, exit.CodeOK, "is 0ns behind"},
		{[]string{"wait", "keeper", "--for=queue=0", at}, exit.CodeOK, "keeper: 0 queued, 0 in progress, 0 parked (controller Running)"},
		{[]string{"wait", "pods/good", "-n", "shop", "--for=jsonpath={.spec.nodeName}=n1", at}, exit.CodeOK, "pods/good: it is n1"},
		{[]string{"wait", "pods/good", "-n", "shop", "--for=create", without}, exit.CodeOK, "pods/good: it is in the cache"},
		{[]string{"wait", "pods/none", "-n", "shop", "--for=create", "--timeout=1ms", without}, exit.CodeTimeout, "--timeout of 1ms expired"},
		{[]string{"wait", "pods/good", "-n", "shop", "--for=condition=Ready", without}, exit.CodeUnavailable, "needs the contents of shop/good: this process shows no contents"},
		{[]string{"wait", "pods/good", "--for=delete", at}, exit.CodeUsage, "pods/good is namespaced: specify the namespace with -n"},
		{[]string{"wait", "sheep", "--for=synced", at}, exit.CodeUnavailable, `no informer is named "sheep"; available: pods`},
		{[]string{"wait", "sheep", "--for=queue=0", at}, exit.CodeUnavailable, `no controller or queue is named "sheep"; available: keeper`},
		{[]string{"wait", "pods/good", "--for=synced", at}, exit.CodeUsage, "omit the name"},
		{[]string{"wait", "pods", "--for=synced", "--attach=http://127.0.0.1:1"}, exit.CodeUnavailable, "http://127.0.0.1:1: dial tcp 127.0.0.1:1: "},
		{[]string{"wait", "pods", at}, exit.CodeUsage, "--for is missing"},
		{[]string{"wait", "pods", "--for=ready", at}, exit.CodeUsage, "want synced, rv=N"},
		{[]string{"wait", "pods", "--for=rv=new", at}, exit.CodeUsage, "want a resource version"},
		{[]string{"wait", "pods", "--for=lag<0s", at}, exit.CodeUsage, "want a positive duration"},
		{[]string{"wait", "pods", "--for=queue=-1", at}, exit.CodeUsage, "want a number"},
		{[]string{"wait", "pods", "--for=condition=", at}, exit.CodeUsage, "specify the condition"},
		{[]string{"wait", "pods", "--for=jsonpath={.a", at}, exit.CodeUsage, "unclosed brace"},
		{[]string{"wait", "pods", "--for=lag<1s"}, exit.CodeUsage, "select one with --attach"},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, c.code, r.Code, "%v: %s%s", c.args, r.Out, r.ErrOut)
		require.Contains(t, r.Out+r.ErrOut, c.want, c.args)
	}
}

// If a name matches several informers, the message lists their names.
func TestSeveralInformersOfAName(t *testing.T) {
	p := newSick(t)
	p.put("web-1")
	other := factory.New(p.client, factory.Options{Namespaces: []string{"bank"}, Flight: p.recorder})
	factory.Informer[*corev1.Pod](other)
	at := p.run(other)
	r := invoke(t, "wait", "pods", "--for=synced", at)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `^pods: pods in namespace bank: 1 objects are in the cache, complete up to version \d+; pods in namespace shop: 2 objects are in the cache, complete up to version \d+\n$`, r.Out)
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"wait", "pods/web-1", "-n", "shop", "--for=create", at}, exit.CodeUsage},
		{[]string{"get", "pods", at}, exit.CodeUnavailable},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, c.code, r.Code, c.args)
		require.Regexp(t, `pods in namespace bank.*; pods in namespace shop`, r.ErrOut, c.args)
		require.Contains(t, r.ErrOut, "by its full name", c.args)
	}
	r = invoke(t, "wait", "pods in namespace shop/web-1", "-n", "shop", "--for=create", at)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	r = invoke(t, "why", "pods/web-1", at, p.address)
	require.Contains(t, r.Out, "The cache has pods/web-1, same as the server", "only one of them has it")
}

// Each name that get prints selects that informer in all commands, even if several informers have
// the same resource.
func TestTheNamesOfInformersOfOneResource(t *testing.T) {
	p := newSick(t)
	p.put("web-1")
	factory.InformerWith[*metav1.PartialObjectMetadata](p.factory, factory.For[*metav1.PartialObjectMetadata]{Kind: object.GVK{Version: "v1", Kind: "Pod"}})
	at := p.run()
	names := invoke(t, "get", "-o", "name", at).Lines()
	require.Equal(t, []string{"pods in namespace shop (*v1.Pod)", "pods in namespace shop (*v1.PartialObjectMetadata)"}, names)
	for _, name := range names {
		for _, args := range [][]string{
			{"wait", name, "--for=synced", at}, {"get", name, at}, {"get", name, "web-1", "-n", "shop", at}, {"get", name + "/web-1", "-n", "shop", at},
			{"check", name, at, p.address}, {"why", name + "/web-1", at, p.address}, {"wait", name + "/web-1", "-n", "shop", "--for=create", at},
		} {
			r := invoke(t, args...)
			require.Equal(t, exit.CodeOK, r.Code, "%s: %s", args, r.ErrOut)
			require.NotContains(t, r.Out, "differ", "a cache of metadata has no other fields")
		}
	}
	require.Contains(t, invoke(t, "get", "pods", at).ErrOut, strings.Join(names, "; "))
	r := invoke(t, "get", names[1], "--cluster=west", at)
	require.Equal(t, exit.CodeUsage, r.Code)
	require.Contains(t, r.ErrOut, "use --cluster-name to select an informer by cluster")
}

// An object outside the scope of every informer is not reported as deleted.
func TestWaitInANamespaceThatIsNotWatched(t *testing.T) {
	srv, _ := debugtest.Cluster(t, apiservertest.Options{})
	_, _, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	for _, what := range []string{"pods/web-1", "pods"} {
		r := invoke(t, "wait", what, "-n", "bank", "--for=delete", "--attach="+at.URL)
		require.Equal(t, exit.CodeUsage, r.Code, r.Out)
		require.Contains(t, r.ErrOut, "pods in namespace shop does not watch namespace bank")
	}
	r := invoke(t, "wait", "pods/web-1", "--for=create", "--attach="+at.URL)
	require.Contains(t, r.Out, "pods/web-1: it is in the cache", r.ErrOut)
}

// An idle process is rarely polled, and a change is noticed at once.
func TestWaitLooksAtAProcessWhenSomethingHappens(t *testing.T) {
	srv, _ := debugtest.Cluster(t, apiservertest.Options{})
	_, _, process := listener(t, srv, sharedinformer.Options{})
	var looks atomic.Int64
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == debug.Path+"v1/status" {
			looks.Add(1)
		}
		process.ServeHTTP(w, r)
	}))
	defer at.Close()
	const quiet = 3 * time.Second
	changed := time.AfterFunc(quiet, func() { debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "new"}, corev1.PodRunning) })
	defer changed.Stop()
	r := invoke(t, "wait", "pods/new", "-n", "shop", "--for=create", "--attach="+at.URL)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.LessOrEqual(t, looks.Load(), int64(2*quiet/time.Second)+1)
}

// At the timeout, a silent process is named.
func TestWaitForASilentProcess(t *testing.T) {
	at := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer at.Close()
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	for _, args := range [][]string{{"wait", "pods", "--for=synced"}, {"check", server}} {
		r := invoke(t, append(args, "--timeout=100ms", "--attach="+at.URL)...)
		require.Equal(t, exit.CodeTimeout, r.Code, r.ErrOut)
		require.Contains(t, r.ErrOut, "--timeout of 100ms expired: "+at.URL+" has not responded")
	}
}

func TestWaitOnACluster(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	_, err := srv.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	require.NoError(t, err)
	require.Equal(t, "nodes: 1 objects are in the cache\n", invoke(t, "wait", "nodes", "-n", "shop", "--for=create", server).Out)
	r := invoke(t, "wait", "pods/web-1", "-n", "shop", "--for=create", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "pods/web-1: it is in the cache")
	r = invoke(t, "wait", "pods", "--for=jsonpath={.status.phase}=Running", "-A", "-l", "app!=api", server)
	require.Equal(t, "pods: jsonpath={.status.phase}=Running holds for 2 objects\n", r.Out, r.ErrOut)
	srv.SetAuthorizer(apiservertest.Deny("", "pods"))
	r = invoke(t, "wait", "pods", "--for=synced", server)
	require.Equal(t, exit.CodeUnavailable, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "forbidden")
}

func TestWaitForALaggingHandler(t *testing.T) {
	srv, _ := debugtest.Cluster(t, apiservertest.Options{})
	i, _, process := listener(t, srv, sharedinformer.Options{})
	release := make(chan struct{})
	stuck := make(chan struct{}, 10)
	i.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error {
		stuck <- struct{}{}
		<-release
		return nil
	}), sharedinformer.HandlerOptions{Name: "slow"})
	<-stuck
	at := httptest.NewServer(process)
	defer at.Close()
	r := invoke(t, "wait", "pods in namespace shop", "--for=lag<1ns", "--timeout=1s", "--attach="+at.URL)
	require.Equal(t, exit.CodeTimeout, r.Code, r.Out)
	require.Contains(t, r.ErrOut, "handler slow is ")
	close(release)
	r = invoke(t, "wait", "pods in namespace shop", "--for=lag<1m", "--attach="+at.URL)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
}
