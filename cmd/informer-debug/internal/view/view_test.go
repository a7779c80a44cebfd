package view

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
)

// In these tests time is virtual and connections are in memory.

// watching is a server with one pod and a job that watches it.
func watching(t *testing.T, count int) (*apiservertest.Server, *Job, *debugtest.Transcript, *debugtest.Transcript) {
	t.Helper()
	srv, cfg := debugtest.Bubbled(t)
	var stdout, stderr debugtest.Transcript
	flags := &Flags{count: count, allNamespaces: true}
	require.NoError(t, flags.Check())
	s := debugtest.Onto(&stdout, &stderr)
	return srv, &Job{
		Streams: s, Flags: flags, Console: terminal.NewConsole(s, false), Arg: object.GVR{Resource: "pods"}, Config: cfg,
	}, &stdout, &stderr
}

func TestNothingEndsASyncedView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, j, stdout, stderr := watching(t, 2)
		ended := make(chan error)
		go func() { ended <- j.Run(t.Context()) }()
		synctest.Wait()

		srv.SetAuthorizer(apiservertest.Deny("", "pods"))
		srv.Restart()
		time.Sleep(5 * time.Minute)
		srv.Down()
		time.Sleep(5 * time.Minute)
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodPending)
		srv.Compact()
		srv.SetAuthorizer(nil)
		srv.Up()
		require.NoError(t, <-ended, stderr)

		assert.Contains(t, stdout.String(), "shop/web-2")
		for _, want := range []string{"! ", "watch open: forbidden: pods is forbidden", "in a row)", "connection refused", "expired: ", " relists"} {
			assert.Contains(t, stderr.String(), want)
		}
	})
}

func TestTimeoutNamesWhatItWaitedFor(t *testing.T) {
	for verb, want := range map[string]string{
		"list": "--timeout of 9s expired: not synced: pods: Listing for 9s: no answer from apiserver.pipe for 9s (the request is sent), no failure so far",
		"get":  `--timeout of 9s expired: look up resource "pods": discovery: `,
	} {
		synctest.Test(t, func(t *testing.T) {
			srv, j, _, stderr := watching(t, 0)
			j.Flags.timeout, j.Flags.initial.Value = 9*time.Second, "list"
			srv.Faults().Add(apiservertest.Fault{Verb: verb, Do: []apiservertest.Action{apiservertest.Silence{}}})
			began := time.Now()
			err := j.Run(t.Context())
			require.Error(t, err)
			assert.Equal(t, exit.CodeTimeout, err.(*exit.Error).Code, "%v\n%s", err, stderr)
			assert.Contains(t, err.Error(), want)
			assert.Equal(t, 9*time.Second, time.Since(began))
		})
	}
}

// A namespace that does not exist looks like an empty one, so the view has to say so.
func TestMissingNamespaceGetsAHint(t *testing.T) {
	for namespace, hinted := range map[string]bool{"shp": true, "empty": false, "shop": false} {
		synctest.Test(t, func(t *testing.T) {
			srv, j, _, stderr := watching(t, 0)
			_, err := srv.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
			require.NoError(t, err)
			j.Flags.timeout, j.Flags.allNamespaces, j.Config.Namespace = time.Minute, false, namespace
			require.Error(t, j.Run(t.Context()))
			assert.Equal(t, hinted, strings.Contains(stderr.String(), "shp does not exist (yet): check -n; -A shows all namespaces"), stderr)
		})
	}
}

func TestTroubleBeforeTheFirstSyncEndsSoon(t *testing.T) {
	for name, c := range map[string]struct {
		fault   apiservertest.Fault
		code    int
		want    string
		atLeast time.Duration
		atMost  time.Duration
	}{
		"silent discovery": {apiservertest.Fault{Do: []apiservertest.Action{apiservertest.Silence{}}}, exit.CodeUnavailable, "no response within 10s", 10 * time.Second, 10 * time.Second},
		"cut discovery":    {apiservertest.Fault{Do: []apiservertest.Action{apiservertest.Cut{}}}, exit.CodeUnavailable, "cannot reach http://apiserver.pipe", 2 * time.Second, 4 * time.Second},
		"500 on lists":     {apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}}, exit.CodeUnavailable, "internalerror: ", time.Second, 4 * time.Second},
		"garbled lists":    {apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Garble{}}}, exit.CodeRuntime, "decode", time.Second, 4 * time.Second},
		"one bad moment":   {apiservertest.Fault{Resource: "pods", Count: 2, Do: []apiservertest.Action{apiservertest.Fail{Code: 503}}}, exit.CodeOK, "synced", time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, j, _, stderr := watching(t, 1)
				srv.Faults().Add(c.fault)
				began := time.Now()
				err := j.Run(t.Context())
				took := time.Since(began)
				code, text := exit.CodeOK, stderr.String()
				if e, ok := err.(*exit.Error); ok {
					code, text = e.Code, text+e.Error()+e.Hint
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, c.code, code, text)
				if c.code != exit.CodeOK {
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
