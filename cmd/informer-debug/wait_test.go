package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
)

// awaited runs wait on a bubbled server with one pod, shop/web-1, and changes that as then says.
func awaited(t *testing.T, flags waitFlags, args []string, then func(*apiserver.Server)) (text string, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, j, stdout, stderr := bubbled(t, 0)
		j.config.Namespace = "shop"
		var look sightFlags
		require.NoError(t, look.check())
		require.NoError(t, flags.check(&look))
		subjects, e := flags.subjectsOf(args)
		require.NoError(t, e)
		v, e := look.openCluster(t.Context(), j.config, "pods", nil)
		require.NoError(t, e)
		defer v.close()
		subjects, e = v.name(t.Context(), subjects)
		require.NoError(t, e)
		if then != nil {
			time.AfterFunc(3*time.Second, func() { then(srv) })
		}
		ctx, cancel := limited(t.Context(), flags.timeout)
		defer cancel()
		began := time.Now()
		err = unfinished(ctx, flags.timeout, (&waiter{waitFlags: &flags, sight: v, subjects: subjects, console: j.console}).wait(ctx, stdout))
		text, took = stdout.String(), time.Since(began)
		switch said := strings.Contains(stderr.String(), "  waiting  "); {
		case took > lateAfter+2*lookAtLeast:
			require.True(t, said, "it waits without a word\n%s", stderr)
		case took < lateAfter:
			require.False(t, said, stderr)
		}
	})
	return text, took, err
}

func pods() object.GVR { return corev1.SchemeGroupVersion.WithResource("pods") }

// ready stores the pod web-1 with a condition.
func ready(t *testing.T, srv *apiserver.Server, status corev1.ConditionStatus) {
	_, err := srv.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: status, Reason: "ContainersNotReady", Message: "still pulling"}}},
	})
	assert.NoError(t, err)
}

func TestWaitEndsWhenItIsTrue(t *testing.T) {
	web := object.Key{Namespace: "shop", Name: "web-1"}
	for name, c := range map[string]struct {
		until string
		args  []string
		any   bool
		then  func(*apiserver.Server)
		want  string
	}{
		"synced":      {until: "synced", args: []string{"pods"}, want: "pods: 1 objects are in the cache, complete up to version 101\n"},
		"rv":          {until: "rv=1", args: []string{"po"}, want: "po: the cache is complete up to version 101\n"},
		"there":       {until: "create", args: []string{"pods/web-1"}, want: "pods/web-1: it is in the cache with version 101\n"},
		"any":         {until: "create", args: []string{"pods/web-1", "pods/none"}, any: true, want: "pods/web-1: it is in the cache with version 101\n"},
		"all there":   {until: "jsonpath={.status.phase}=Running", args: []string{"pods"}, want: "pods: jsonpath={.status.phase}=Running is true of 1 objects\n"},
		"path is set": {until: "jsonpath=.status.phase", args: []string{"pods/web-1"}, want: "pods/web-1: it is Running\n"},
		"created": {until: "create", args: []string{"pods/new"}, then: func(srv *apiserver.Server) {
			put(t, srv, object.Key{Namespace: "shop", Name: "new"}, corev1.PodRunning)
		}, want: "pods/new: it is in the cache with version 102\n"},
		"deleted":     {until: "delete", args: []string{"pods/web-1"}, then: func(srv *apiserver.Server) { assert.NoError(t, srv.Delete(pods(), web)) }, want: "pods/web-1: it is not in the cache\n"},
		"all deleted": {until: "delete", args: []string{"pods"}, then: func(srv *apiserver.Server) { assert.NoError(t, srv.Delete(pods(), web)) }, want: "pods: 0 objects are in the cache\n"},
		"made again":  {until: "delete", args: []string{"pods/web-1"}, then: func(srv *apiserver.Server) { _ = srv.Delete(pods(), web); put(t, srv, web, corev1.PodRunning) }, want: "pods/web-1: it was deleted, and another one made\n"},
		"a condition": {until: "condition=ready", args: []string{"pods/web-1"}, then: func(srv *apiserver.Server) { ready(t, srv, "True") }, want: "pods/web-1: condition ready is True\n"},
		"other value": {until: "condition=Ready=False", args: []string{"pods/web-1"}, then: func(srv *apiserver.Server) { ready(t, srv, "False") }, want: "pods/web-1: condition Ready is False\n"},
		"other phase": {until: "jsonpath={.status.phase}=Failed", args: []string{"pods/web-1"}, then: func(srv *apiserver.Server) { put(t, srv, web, corev1.PodFailed) }, want: "pods/web-1: it is Failed\n"},
		"after a rest": {until: "create", args: []string{"pods/new"}, then: func(srv *apiserver.Server) {
			srv.Restart()
			put(t, srv, object.Key{Namespace: "shop", Name: "new"}, corev1.PodRunning)
		}, want: "pods/new: it is in the cache with version 102\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text, took, err := awaited(t, waitFlags{until: c.until, any: c.any, timeout: time.Minute}, c.args, c.then)
			require.NoError(t, err)
			require.Equal(t, c.want, text)
			if c.then == nil {
				require.Less(t, took, time.Second)
			} else {
				require.GreaterOrEqual(t, took, 3*time.Second)
			}
			if name != "after a rest" { // it looks when the cache changes, and not at the next tick
				require.Less(t, took, 3*time.Second+100*time.Millisecond)
			}
		})
	}
}

func TestWaitSaysWhatIsMissing(t *testing.T) {
	for until, c := range map[string]struct {
		args []string
		then func(*apiserver.Server)
		want string
	}{
		"create":                          {args: []string{"pods/web-1", "pods/none"}, want: "--timeout of 8s is over: pods/none: it is not in the cache"},
		"delete":                          {args: []string{"pods"}, want: "pods: 1 objects are in the cache"},
		"rv=999":                          {args: []string{"pods"}, then: func(srv *apiserver.Server) { srv.Down() }, want: "pods: the cache is complete up to version 101, and no changes arrive: pods in namespace shop: "},
		"condition=Ready":                 {args: []string{"pods/web-1"}, then: func(srv *apiserver.Server) { ready(t, srv, "False") }, want: "pods/web-1: condition Ready is False: ContainersNotReady: still pulling"},
		"condition=Other":                 {args: []string{"pods/web-1"}, want: "pods/web-1: there is no condition Other"},
		"jsonpath={.status.phase}=Failed": {args: []string{"pods"}, want: "pods: shop/web-1: it is Running"},
		"jsonpath=.spec.nodeName":         {args: []string{"pods/web-1"}, want: "pods/web-1: there is nothing at that path"},
	} {
		t.Run(until, func(t *testing.T) {
			text, took, err := awaited(t, waitFlags{until: until, timeout: 8 * time.Second}, c.args, c.then)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, exitTimeout, err.(*exitError).code)
			require.Equal(t, 8*time.Second, took)
			require.Empty(t, text)
		})
	}
}

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
		{[]string{"wait", "pods", "--for=synced", at}, exitOK, "pods: 2 objects are in the cache"},
		{[]string{"wait", "pods", "--for=lag<10m", at}, exitOK, "is 0ns behind"},
		{[]string{"wait", "keeper", "--for=queue=0", at}, exitOK, "keeper: 0 keys wait, 0 are worked on, 0 are parked (controller Running)"},
		{[]string{"wait", "pods/good", "-n", "shop", "--for=jsonpath={.spec.nodeName}=n1", at}, exitOK, "pods/good: it is n1"},
		{[]string{"wait", "pods/good", "-n", "shop", "--for=create", without}, exitOK, "pods/good: it is in the cache"},
		{[]string{"wait", "pods/none", "-n", "shop", "--for=create", "--timeout=1ms", without}, exitTimeout, "--timeout of 1ms is over"},
		{[]string{"wait", "pods/good", "-n", "shop", "--for=condition=Ready", without}, exitUnavailable, "needs the contents of shop/good: this process shows no contents"},
		{[]string{"wait", "pods/good", "--for=delete", at}, exitUsage, "pods/good is in a namespace: say which with -n"},
		{[]string{"wait", "sheep", "--for=synced", at}, exitUnavailable, `no informer is called "sheep"; there are: pods`},
		{[]string{"wait", "sheep", "--for=queue=0", at}, exitUnavailable, `no controller and no queue is called "sheep"; there are: keeper`},
		{[]string{"wait", "pods/good", "--for=synced", at}, exitUsage, "leave out the name"},
		{[]string{"wait", "pods", "--for=synced", "--attach=http://127.0.0.1:1"}, exitUnavailable, "http://127.0.0.1:1: dial tcp 127.0.0.1:1: "},
		{[]string{"wait", "pods", at}, exitUsage, "--for is missing"},
		{[]string{"wait", "pods", "--for=ready", at}, exitUsage, "want synced, rv=N"},
		{[]string{"wait", "pods", "--for=rv=new", at}, exitUsage, "want a resource version"},
		{[]string{"wait", "pods", "--for=lag<0s", at}, exitUsage, "want a duration of more than nothing"},
		{[]string{"wait", "pods", "--for=queue=-1", at}, exitUsage, "want a number"},
		{[]string{"wait", "pods", "--for=condition=", at}, exitUsage, "name the condition"},
		{[]string{"wait", "pods", "--for=jsonpath={.a", at}, exitUsage, "the brace is not closed"},
		{[]string{"wait", "pods", "--for=lag<1s"}, exitUsage, "say which with --attach"},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, c.code, r.code, "%v: %s%s", c.args, r.out, r.errOut)
		require.Contains(t, r.out+r.errOut, c.want, c.args)
	}
}

// An object that no informer of the process can have is not one that was deleted.
func TestWaitInANamespaceThatIsNotWatched(t *testing.T) {
	srv, _ := cluster(t, apiserver.Options{})
	_, _, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	for _, what := range []string{"pods/web-1", "pods"} {
		r := invoke(t, "wait", what, "-n", "bank", "--for=delete", "--attach="+at.URL)
		require.Equal(t, exitUsage, r.code, r.out)
		require.Contains(t, r.errOut, "pods in namespace shop has no objects of namespace bank")
	}
	r := invoke(t, "wait", "pods/web-1", "--for=create", "--attach="+at.URL)
	require.Contains(t, r.out, "pods/web-1: it is in the cache", r.errOut)
}

// A process in which nothing happens is hardly asked, and one in which something does at once.
func TestWaitLooksAtAProcessWhenSomethingHappens(t *testing.T) {
	srv, _ := cluster(t, apiserver.Options{})
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
	changed := time.AfterFunc(quiet, func() { put(t, srv, object.Key{Namespace: "shop", Name: "new"}, corev1.PodRunning) })
	defer changed.Stop()
	r := invoke(t, "wait", "pods/new", "-n", "shop", "--for=create", "--attach="+at.URL)
	require.Equal(t, exitOK, r.code, r.errOut)
	require.LessOrEqual(t, looks.Load(), int64(2*quiet/lookAtLeast)+1)
}

// A process that is silent is named when the time is over.
func TestWaitForASilentProcess(t *testing.T) {
	at := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer at.Close()
	_, server := cluster(t, apiserver.Options{})
	for _, args := range [][]string{{"wait", "pods", "--for=synced"}, {"check", server}} {
		r := invoke(t, append(args, "--timeout=100ms", "--attach="+at.URL)...)
		require.Equal(t, exitTimeout, r.code, r.errOut)
		require.Contains(t, r.errOut, "--timeout of 100ms is over: "+at.URL+" has not answered")
	}
}

func TestWaitOnACluster(t *testing.T) {
	srv, server := cluster(t, apiserver.Options{})
	_, err := srv.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	require.NoError(t, err)
	require.Equal(t, "nodes: 1 objects are in the cache\n", invoke(t, "wait", "nodes", "-n", "shop", "--for=create", server).out)
	r := invoke(t, "wait", "pods/web-1", "-n", "shop", "--for=create", server)
	require.Equal(t, exitOK, r.code, r.errOut)
	require.Contains(t, r.out, "pods/web-1: it is in the cache")
	r = invoke(t, "wait", "pods", "--for=jsonpath={.status.phase}=Running", "-A", "-l", "app!=api", server)
	require.Equal(t, "pods: jsonpath={.status.phase}=Running is true of 2 objects\n", r.out, r.errOut)
	srv.SetAuthorizer(apiserver.Deny("", "pods"))
	r = invoke(t, "wait", "pods", "--for=synced", server)
	require.Equal(t, exitUnavailable, r.code, r.errOut)
	require.Contains(t, r.errOut, "forbidden")
}

// An observed generation that is behind the object's own is about another spec.
func TestAConditionOfAnEarlierGenerationDoesNotCount(t *testing.T) {
	type m = map[string]any
	c, err := parseCondition("condition=Available")
	require.NoError(t, err)
	of := func(seen any) m {
		return m{"metadata": m{"generation": int64(3)}, "status": m{"observedGeneration": seen, "conditions": []any{m{"type": "Available", "status": "True"}}}}
	}
	ok, text := c.holds(of(int64(2)))
	require.False(t, ok)
	require.Equal(t, "condition Available is of generation 2, and the object has 3", text)
	ok, _ = c.holds(of(int64(3)))
	require.True(t, ok)
}

func TestWaitForALaggingHandler(t *testing.T) {
	srv, _ := cluster(t, apiserver.Options{})
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
	require.Equal(t, exitTimeout, r.code, r.out)
	require.Contains(t, r.errOut, "handler slow is ")
	close(release)
	r = invoke(t, "wait", "pods in namespace shop", "--for=lag<1m", "--attach="+at.URL)
	require.Equal(t, exitOK, r.code, r.errOut)
}
