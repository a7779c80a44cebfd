package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/test/apiserver"
)

// In these tests time is virtual and connections are in memory.

// bubbled is a server with one pod and a job that watches it.
func bubbled(t *testing.T, count int) (*apiserver.Server, *job, *transcript, *transcript) {
	t.Helper()
	srv := apiserver.New(apiserver.Options{})
	t.Cleanup(srv.Close)
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodRunning)
	var stdout, stderr transcript
	flags := &viewFlags{count: count, allNamespaces: true}
	require.NoError(t, flags.check())
	s := around(&stdout, &stderr)
	return srv, &job{
		surroundings: s, flags: flags, console: newConsole(s, false), arg: object.GVR{Resource: "pods"},
		config: &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext},
	}, &stdout, &stderr
}

func TestNothingEndsASyncedView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j, stdout, stderr := bubbled(t, 2)
		ended := make(chan error)
		go func() { ended <- j.run(t.Context()) }()
		synctest.Wait()

		srv.SetAuthorizer(apiserver.Deny("", "pods"))
		srv.Restart()
		time.Sleep(5 * time.Minute)
		srv.Down()
		time.Sleep(5 * time.Minute)
		put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodPending)
		srv.Compact()
		srv.SetAuthorizer(nil)
		srv.Up()
		require.NoError(t, <-ended, stderr)

		assert.Contains(t, stdout.String(), "shop/web-2")
		for _, want := range []string{"! ", "watch open: forbidden: pods is forbidden", "in a row)", "connection refused", "expired: ", "1 relists"} {
			assert.Contains(t, stderr.String(), want)
		}
	})
}

func TestTimeoutSaysWhatItWaitedFor(t *testing.T) {
	for verb, want := range map[string]string{
		"list": "--timeout of 9s is over: not synced: pods: Listing for 9s: no answer from apiserver.pipe for 9s (the request is sent), no failure so far",
		"get":  `--timeout of 9s is over: look up resource "pods": discovery: `,
	} {
		synctest.Test(t, func(t *testing.T) {
			srv, j, _, stderr := bubbled(t, 0)
			j.flags.timeout, j.flags.initial.value = 9*time.Second, "list"
			srv.Faults().Add(apiserver.Fault{Verb: verb, Do: []apiserver.Action{apiserver.Silence{}}})
			began := time.Now()
			err := j.run(t.Context())
			require.Error(t, err)
			assert.Equal(t, exitTimeout, err.(*exitError).code, "%v\n%s", err, stderr)
			assert.Contains(t, err.Error(), want)
			assert.Equal(t, 9*time.Second, time.Since(began))
		})
	}
}

// A namespace that does not exist looks like an empty one: the view has to say it.
func TestMissingNamespaceGetsAHint(t *testing.T) {
	for namespace, hinted := range map[string]bool{"shp": true, "empty": false, "shop": false} {
		synctest.Test(t, func(t *testing.T) {
			srv, j, _, stderr := bubbled(t, 0)
			_, err := srv.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
			require.NoError(t, err)
			j.flags.timeout, j.flags.allNamespaces, j.config.Namespace = time.Minute, false, namespace
			require.Error(t, j.run(t.Context()))
			assert.Equal(t, hinted, strings.Contains(stderr.String(), "shp does not exist (yet): check -n; -A shows all namespaces"), stderr)
		})
	}
}

func TestTroubleBeforeTheFirstSyncEndsSoon(t *testing.T) {
	for name, c := range map[string]struct {
		fault   apiserver.Fault
		code    int
		want    string
		atLeast time.Duration
		atMost  time.Duration
	}{
		"silent discovery": {apiserver.Fault{Do: []apiserver.Action{apiserver.Silence{}}}, exitUnavailable, "no answer within 10s", 10 * time.Second, 10 * time.Second},
		"cut discovery":    {apiserver.Fault{Do: []apiserver.Action{apiserver.Cut{}}}, exitUnavailable, "cannot reach http://apiserver.pipe", 2 * time.Second, 4 * time.Second},
		"500 on lists":     {apiserver.Fault{Resource: "pods", Do: []apiserver.Action{apiserver.Fail{Code: 500}}}, exitUnavailable, "internalerror: ", time.Second, 4 * time.Second},
		"garbled lists":    {apiserver.Fault{Resource: "pods", Do: []apiserver.Action{apiserver.Garble{}}}, exitRuntime, "decode", time.Second, 4 * time.Second},
		"one bad moment":   {apiserver.Fault{Resource: "pods", Count: 2, Do: []apiserver.Action{apiserver.Fail{Code: 503}}}, exitOK, "synced", time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, j, _, stderr := bubbled(t, 1)
				srv.Faults().Add(c.fault)
				began := time.Now()
				err := j.run(t.Context())
				took := time.Since(began)
				code, text := exitOK, stderr.String()
				if e, ok := err.(*exitError); ok {
					code, text = e.code, text+e.Error()+e.hint
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, c.code, code, text)
				if c.code != exitOK {
					assert.Contains(t, text, c.want)
				}
				assert.Contains(t, text, "! ", "trouble shows while it is tried again")
				if name == "silent discovery" {
					assert.Contains(t, text, "  waiting       no answer from apiserver.pipe for 3s (the request is sent)\n")
				}
				assert.GreaterOrEqual(t, took, c.atLeast)
				assert.LessOrEqual(t, took, c.atMost)
			})
		})
	}
}

// demonstrate runs the demonstration in virtual time.
func demonstrate(t *testing.T, args ...string) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr transcript
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a demonstration without end fails
		defer cancel()
		r.code = run(ctx, append([]string{"demo"}, args...), around(&stdout, &stderr))
		require.NoError(t, ctx.Err(), "it did not end by itself")
		r.out, r.errOut = stdout.String(), stderr.String()
	})
	return r
}

func TestDemoIsAliveWithinASecond(t *testing.T) {
	r := demonstrate(t, "--duration", "1s")
	assert.Equal(t, exitOK, r.code, r.errOut)
	assert.Regexp(t, `(?m)^[+~-] .*\d+(ns|µs|ms)$|^[+~-] .* \d`, r.out)
	assert.GreaterOrEqual(t, len(r.lines()), 1+fewPods+3, r.out)
}

// TestDemo lets every fault happen once and more, and then compares what was
// shown with what there was.
func TestDemo(t *testing.T) {
	r := demonstrate(t, "--duration", "100.02s", "--rate", "20")
	require.Equal(t, exitOK, r.code, r.errOut)
	for _, f := range sabotages() {
		assert.Contains(t, r.errOut, "fault         "+f.what)
	}
	for _, want := range []string{
		"! ", "unexpected EOF", "expired: ", "500 Internal Server Error", "decode application/json",
		"toomanyrequests: ", "connection refused", "InitialWatch  again, the changes after rv", "latency       p50",
	} {
		assert.Contains(t, r.errOut, want)
	}

	shown := map[string]bool{}
	for _, line := range r.lines()[1:] {
		f := strings.Fields(line)
		switch key := f[3]; f[0] {
		case "+":
			assert.False(t, shown[key], "%s was added twice", key)
			shown[key] = true
		case "~":
			assert.True(t, shown[key], "%s was updated and not there", key)
		case "-":
			assert.True(t, shown[key], "%s was deleted and not there", key)
			delete(shown, key)
		}
	}
	m := regexp.MustCompile(`stopped .* (\d+) objects`).FindStringSubmatch(r.errOut)
	require.NotNil(t, m, r.errOut)
	assert.Len(t, shown, atoi(t, m[1]))
}

func TestDemoFlags(t *testing.T) {
	first := demonstrate(t, "-c", "15", "--seed", "7", "--faults=false", "-o", "name")
	again := demonstrate(t, "-c", "15", "--seed", "7", "--faults=false", "-o", "name")
	other := demonstrate(t, "-c", "15", "--seed", "8", "--faults=false", "-o", "name")
	assert.Equal(t, first.out, again.out)
	assert.NotEqual(t, first.out, other.out)

	r := demonstrate(t, "leases", "--timeout", "10s", "--faults=false", "--watch-only", "-n", corev1.NamespaceNodeLease)
	assert.Equal(t, exitTimeout, r.code, r.errOut)
	assert.Contains(t, r.out, "~ ")
	assert.NotContains(t, r.errOut, "* ")
	assert.NotContains(t, r.errOut, "! ")

	r = demonstrate(t, "-c", "20", "-n", "bank", "-l", "app=api")
	assert.Equal(t, exitOK, r.code, r.errOut)
	assert.Len(t, r.lines(), 21)
	assert.Equal(t, 20, strings.Count(r.out, "bank/api-"))
}
