package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestDoctorOfACluster(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "doctor", "po,nodes", "-n", "shop", "--for=200ms", server)
	require.Equal(t, exit.CodeOK, r.Code, r.Out+r.ErrOut)
	for _, want := range []string{
		`(?m)^ok       clock: matches the server's within a few seconds$`,
		`(?m)^ok       pods in namespace shop: these credentials may list$`,
		`(?m)^ok       pods in namespace shop: a list of one object took \S+ to begin$`,
		`(?m)^ok       pods in namespace shop: a streaming list of 2 objects took \S+$`,
		`(?m)^ok       pods in namespace shop: a watch took \S+ to begin$`,
		`(?m)^ok       pods in namespace shop: is available as .*protobuf$`,
		`(?m)^ok       nodes: these credentials may list$`,
	} {
		require.Regexp(t, want, r.Out)
	}

	srv.SetAuthorizer(apiservertest.Deny("", "pods"))
	r = invoke(t, "doctor", "po", "-n", "shop", "--for=200ms", server)
	require.Equal(t, exit.CodeFalse, r.Code, r.Out+r.ErrOut)
	require.Contains(t, r.Out, "problem  pods in namespace shop: these credentials may not list; the role below would allow it\n")
	require.Contains(t, r.Out, "problem  pods in namespace shop: these credentials may not watch; the role below would allow it\n")
	require.Equal(t, 1, strings.Count(r.Out, "kind: Role\nmetadata:\n  name: \"informer-pods\"\n  namespace: \"shop\"\nrules:\n- apiGroups: [\"\"]\n  resources: [\"pods\"]\n"))
	r = invoke(t, "doctor", "po", "-A", "--for=200ms", "-o", "json", server)
	require.Contains(t, r.Out, `"level": "problem"`)
	require.Contains(t, r.Out, `kind: ClusterRole`)
}

func TestDoctorFindsAnOldServer(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused})
	r := invoke(t, "doctor", "po", "-n", "shop", "--for=200ms", server)
	require.Equal(t, exit.CodeOK, r.Code, r.Out+r.ErrOut)
	require.Contains(t, r.Out, "warning  pods in namespace shop: the server does not support streaming lists; ")
}

func TestDoctorOfAProcess(t *testing.T) {
	process := httptest.NewServer(program(t, false))
	defer process.Close()
	r := invoke(t, "doctor", "--for=200ms", "--attach="+process.URL)
	require.Equal(t, exit.CodeOK, r.Code, r.Out+r.ErrOut)
	require.Contains(t, r.Out, "ok       pods: Watching, 2 objects, complete up to version ")
	require.Contains(t, r.Out, "ok       keeper: 0 queued, 0 in progress\n")
	require.Contains(t, r.Out, "warning  keeper: gave up on 1 requests; see the log for their keys; a change or a resync triggers the next attempt\n")

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"doctor"}, "specify the types to examine"},
		{[]string{"doctor", "pods", "--attach=http://localhost:1"}, `doctor examines a whole process: omit "pods"`},
		{[]string{"doctor", "pods", "--for=0"}, "--for must be positive"},
		{[]string{"doctor", "pods", "-A", "-n", "shop"}, "cannot be used together"},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, exit.CodeUsage, r.Code, r.ErrOut)
		require.Contains(t, r.ErrOut, c.want)
	}
}

func TestDoctorFindsProblemsInAProcess(t *testing.T) {
	srv, _ := debugtest.Cluster(t, apiservertest.Options{})
	for n := range 1000 {
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", n)}, corev1.PodRunning)
	}
	i, _, _ := listener(t, srv, sharedinformer.Options{})
	other, _, _ := listener(t, srv, sharedinformer.Options{})
	sharedinformer.AddIndex(i, "phase", func(p *corev1.Pod) []string { return []string{string(p.Status.Phase)} })
	both := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(shown{i.View()}, shown{other.View()})}))
	defer both.Close()
	alone := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(shown{i.View()})}))
	defer alone.Close()

	r := invoke(t, "doctor", "--for=200ms", "--attach="+both.URL)
	require.Equal(t, exit.CodeOK, r.Code, r.Out+r.ErrOut)
	require.Contains(t, r.Out, "warning  pods in namespace shop: 2 informers cache the same objects as *v1.Pod; share one")
	require.Contains(t, r.Out, "\nok       pods in namespace shop (*v1.Pod): Watching, ", "informers of one name are told apart")
	r = invoke(t, "doctor", "--for=200ms", "--attach="+alone.URL)
	require.Contains(t, r.Out, fmt.Sprintf("warning  pods in namespace shop, index phase: %d of %[1]d objects share one value; ", 1001))

	srv.Down()
	require.Eventually(t, func() bool { return i.Status().Reflector.Attempts > 0 }, 10*time.Second, time.Millisecond)
	r = invoke(t, "doctor", "--for=200ms", "--attach="+alone.URL)
	require.Equal(t, exit.CodeFalse, r.Code, r.Out+r.ErrOut)
	require.Contains(t, r.Out, "problem  pods in namespace shop: the cache is stale, at version ")
	require.Contains(t, r.ErrOut, "problems: 1")
}

// If doctor cannot read what a selector leaves out, it does not blame the selector.
func TestDoctorDoesNotBlameASelector(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	i, _, _ := listener(t, srv, sharedinformer.Options{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "none"})})
	srv.Faults().Add(apiservertest.Fault{Verb: "list", Resource: "pods", Skip: 1, Do: []apiservertest.Action{apiservertest.Fail{Code: 403}}})
	process := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(shown{i.View()})}))
	defer process.Close()
	r := invoke(t, "doctor", "--for=200ms", "--attach="+process.URL, server)
	require.NotContains(t, r.Out, "caches nothing")
	require.Contains(t, r.Out, "not compared with the server: ")

	srv.Faults().Clear()
	r = invoke(t, "doctor", "--for=200ms", "--attach="+process.URL, server)
	require.Contains(t, r.Out, "caches nothing although the server has objects: its selector app=none matches none")
}

// If watches end before bookmarks can arrive, doctor says so.
func TestDoctorWithWatchesThatEnd(t *testing.T) {
	for name, c := range map[string]struct {
		do      apiservertest.Action
		timeout time.Duration
		says    string
	}{
		"an error":  {do: apiservertest.ErrorEvent{Status: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd is down"}}, says: "etcd is down"},
		"a page":    {do: apiservertest.Raw{Bytes: []byte("<html>")}, says: "a watch ended after"},
		"a timeout": {timeout: 50 * time.Millisecond, says: "the connection was closed"},
	} {
		t.Run(name, func(t *testing.T) {
			srv, server := debugtest.Cluster(t, apiservertest.Options{WatchTimeout: c.timeout})
			if c.do != nil {
				srv.Faults().Add(apiservertest.Fault{Verb: "watch", Skip: 1, Do: []apiservertest.Action{c.do}})
			}
			r := invoke(t, "doctor", "po", "-n", "shop", "--for=4s", server)
			require.Equal(t, exit.CodeFalse, r.Code)
			require.Contains(t, r.Out, c.says)
			require.NotContains(t, r.Out, "bookmark")
		})
	}
}

// refused is a member that does not participate in its group.
type refused struct{}

func (refused) Status() membership.Status {
	return membership.Status{Group: "carts", Namespace: "shop", Identity: "a", Slots: 16, Attempts: 7, Refusal: errors.New("leases is forbidden")}
}

func (refused) Slot(n int) membership.Holding { return membership.Holding{Slot: n} }

func TestDoctorOfAMemberThatDoesNotParticipate(t *testing.T) {
	process := httptest.NewServer(debug.New(debug.Options{Groups: func() []debug.Membership { return []debug.Membership{refused{}} }}))
	defer process.Close()
	r := invoke(t, "doctor", "--for=100ms", "--attach="+process.URL)
	require.Equal(t, exit.CodeFalse, r.Code)
	require.Contains(t, r.Out, "this process does not participate: leases is forbidden")
}
