package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
)

func TestDoctorOfACluster(t *testing.T) {
	srv, server := cluster(t, apiserver.Options{})
	r := invoke(t, "doctor", "po,nodes", "-n", "shop", "--for=10ms", server)
	require.Equal(t, exitOK, r.code, r.out+r.errOut)
	for _, want := range []string{
		`(?m)^ok       clock: the same as the server's, to a few seconds$`,
		`(?m)^ok       pods in namespace shop: these credentials may list$`,
		`(?m)^ok       pods in namespace shop: a list of one object took \S+ to begin$`,
		`(?m)^ok       pods in namespace shop: a streaming list of 2 objects took \S+$`,
		`(?m)^ok       pods in namespace shop: a watch took \S+ to begin$`,
		`(?m)^ok       pods in namespace shop: comes as .*protobuf$`,
		`(?m)^ok       nodes: these credentials may list$`,
	} {
		require.Regexp(t, want, r.out)
	}

	srv.SetAuthorizer(apiserver.Deny("", "pods"))
	r = invoke(t, "doctor", "po", "-n", "shop", "--for=10ms", server)
	require.Equal(t, exitFalse, r.code, r.out+r.errOut)
	require.Contains(t, r.out, "problem  pods in namespace shop: these credentials may not list; the role below would allow it\n")
	require.Contains(t, r.out, "problem  pods in namespace shop: these credentials may not watch; the role below would allow it\n")
	require.Equal(t, 1, strings.Count(r.out, "kind: Role\nmetadata:\n  name: informer-pods\n  namespace: shop\nrules:\n- apiGroups: [\"\"]\n  resources: [\"pods\"]\n"))
	r = invoke(t, "doctor", "po", "-A", "--for=10ms", "-o", "json", server)
	require.Contains(t, r.out, `"level": "problem"`)
	require.Contains(t, r.out, `kind: ClusterRole`)
}

func TestDoctorFindsAnOldServer(t *testing.T) {
	_, server := cluster(t, apiserver.Options{StreamingLists: apiserver.StreamingListsRefused})
	r := invoke(t, "doctor", "po", "-n", "shop", "--for=10ms", server)
	require.Equal(t, exitOK, r.code, r.out+r.errOut)
	require.Contains(t, r.out, "warning  pods in namespace shop: the server has no streaming lists; ")
}

func TestDoctorIsNotTakenInByAPageOfAProxy(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>Please log in.")
	}))
	defer page.Close()
	client, err := rest.NewClient(&config.Config{Host: page.URL}, nil)
	require.NoError(t, err)
	var found findings
	p, err := newProbe(&config.Config{Host: page.URL}, &found)
	require.NoError(t, err)
	at := target{client: client, server: page.URL, mapping: discovery.Mapping{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: pods(), Namespaced: true}}
	require.NoError(t, p.resource(t.Context(), at, false, time.Second))
	require.Len(t, found.all, 1)
	require.Equal(t, levelProblem, found.all[0].Level)
	require.Contains(t, found.all[0].What, `something else, of type "text/html"`)
}

func TestDoctorCountsBookmarks(t *testing.T) {
	for period, want := range map[time.Duration]string{
		10 * time.Second: "no bookmark came within 10s, which tells nothing",
		70 * time.Second: "a bookmark came after ",
		5 * time.Minute:  "bookmarks come each 1m0s",
	} {
		synctest.Test(t, func(t *testing.T) {
			_, j, _, _ := bubbled(t, 0)
			client, err := rest.NewClient(j.config, nil)
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			var found findings
			p, err := newProbe(j.config, &found)
			require.NoError(t, err)
			defer p.http.CloseIdleConnections()
			at := target{client: client, mapping: discovery.Mapping{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: pods(), Namespaced: true}}
			require.NoError(t, p.resource(t.Context(), at, true, period))
			require.Contains(t, found.all[len(found.all)-1].What, want)
			require.Zero(t, found.problems())
		})
	}
}

func TestDoctorOfCredentialsAndTheClock(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	token := func(exp time.Time) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, exp.Unix())) + ".c2lnbmVk"
	}
	for text, want := range map[string]string{
		token(now.Add(time.Hour)):   "ok token expires in 1h0m0s",
		token(now.Add(time.Minute)): "warning token expires in 1m0s",
		token(now.Add(-time.Hour)):  "problem token expired 1h0m0s ago",
		"no.token.":                 "",
		"opaque":                    "",
	} {
		var found findings
		(&probe{findings: &found, config: &config.Config{BearerToken: text}}).credentials(now)
		got := ""
		for _, f := range found.all {
			got = f.Level + " " + f.About + " " + f.What
			require.NotContains(t, got+f.Do, text)
		}
		require.Equal(t, want, got)
	}
	for off, level := range map[time.Duration]string{0: levelOK, -8 * time.Second: levelWarning, 5 * time.Minute: levelProblem} {
		var found findings
		(&probe{findings: &found}).clock(http.Header{"Date": {now.Add(off).Format(http.TimeFormat)}}, now)
		require.Equal(t, level, found.all[0].Level)
	}
}

func TestDoctorOfAProcess(t *testing.T) {
	process := httptest.NewServer(program(t, false))
	defer process.Close()
	r := invoke(t, "doctor", "--for=10ms", "--attach="+process.URL)
	require.Equal(t, exitOK, r.code, r.out+r.errOut)
	require.Contains(t, r.out, "ok       pods: Watching, 2 objects, complete up to version ")
	require.Contains(t, r.out, "ok       keeper: 0 keys wait, 0 are worked on\n")
	require.Contains(t, r.out, "warning  keeper: gave up on 1 requests; informer-debug why says which\n")

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"doctor"}, "name what to look at"},
		{[]string{"doctor", "pods", "--attach=http://localhost:1"}, `doctor looks at all of a process: leave out "pods"`},
		{[]string{"doctor", "pods", "--for=0"}, "want more than 0"},
		{[]string{"doctor", "pods", "-A", "-n", "shop"}, "contradict each other"},
	} {
		r := invoke(t, c.args...)
		require.Equal(t, exitUsage, r.code, r.errOut)
		require.Contains(t, r.errOut, c.want)
	}
}

func TestDoctorFindsWhatIsWrongInAProcess(t *testing.T) {
	srv, _ := cluster(t, apiserver.Options{})
	for n := range hugeBucket {
		put(t, srv, object.Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", n)}, corev1.PodRunning)
	}
	i, _, _ := listener(t, srv, sharedinformer.Options{})
	other, _, _ := listener(t, srv, sharedinformer.Options{})
	sharedinformer.AddIndex(i, "phase", func(p *corev1.Pod) []string { return []string{string(p.Status.Phase)} })
	both := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(shown{i.View()}, shown{other.View()})}))
	defer both.Close()
	alone := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(shown{i.View()})}))
	defer alone.Close()

	r := invoke(t, "doctor", "--for=10ms", "--attach="+both.URL)
	require.Equal(t, exitOK, r.code, r.out+r.errOut)
	require.Contains(t, r.out, "warning  pods in namespace shop: 2 informers cache the same objects as *v1.Pod; share one")
	r = invoke(t, "doctor", "--for=10ms", "--attach="+alone.URL)
	require.Contains(t, r.out, fmt.Sprintf("warning  pods in namespace shop, index phase: %d of %[1]d objects are under one value; ", hugeBucket+1))

	srv.Down()
	require.Eventually(t, func() bool { return i.Status().Reflector.Attempts > 0 }, 10*time.Second, time.Millisecond)
	r = invoke(t, "doctor", "--for=10ms", "--attach="+alone.URL)
	require.Equal(t, exitFalse, r.code, r.out+r.errOut)
	require.Contains(t, r.out, "problem  pods in namespace shop: the cache is stale, as of version ")
	require.Contains(t, r.errOut, "problems: 1")
}

func TestDoctorOfControllers(t *testing.T) {
	said := func(look func(x *examination)) string {
		x := examination{findings: &findings{}}
		look(&x)
		var b strings.Builder
		require.NoError(t, x.write(&b, ""))
		return b.String()
	}
	require.Equal(t, "warning  keeper: has been reconciling shop/a for 1m30s; see what it waits for; controller.Options.Timeout bounds a reconcile\n"+
		"warning  keeper: shop/b has waited for a worker for 1m10s; see what keeps its workers busy: informer-debug why shop/b\n"+
		"warning  keeper: failed on shop/d 7 times in a row; informer-debug why shop/d says why\n",
		said(func(x *examination) {
			x.keys("keeper", &debug.Keys{
				Running: []debug.Key{{Key: "shop/a", For: 90 * time.Second}},
				Waiting: []debug.Key{{Key: "shop/b", For: 70 * time.Second, Requeues: 2}},
				Delayed: []debug.Key{{Key: "shop/c", Requeues: 3}, {Key: "shop/d", Requeues: 7}},
			})
		}))
	require.Empty(t, said(func(x *examination) {
		x.keys("keeper", &debug.Keys{Running: []debug.Key{{For: time.Second}}, Waiting: []debug.Key{{For: time.Second}}})
	}))

	waits := controller.Status{Name: "keeper", State: controller.Waiting, Sources: []controller.SourceStatus{{Name: "pods", Waiting: errQuota}}}
	follows := &leaderelection.Status{Identity: "a", Holder: "b", Lease: object.Key{Namespace: "ops", Name: "keeper"}}
	require.Equal(t, "problem  keeper: is Waiting; pods is not synced: no quota is left\n", said(func(x *examination) { x.stopped(&waits, nil) }))
	require.Equal(t, "ok       keeper: is Waiting, as this replica does not lead\n", said(func(x *examination) { x.stopped(&waits, follows) }))

	for want, e := range map[string]leaderelection.Status{
		"ok       lease ops/keeper: b leads, and this replica waits\n":    *follows,
		"ok       lease ops/keeper: this replica leads\n":                 {Lease: follows.Lease, Leading: true, Holder: "a"},
		"warning  lease ops/keeper: nobody leads\n":                       {Lease: follows.Lease},
		"problem  lease ops/keeper: was lost while the work still runs: ": {Lease: follows.Lease, Lost: &leaderelection.Failure{Err: errQuota}},
		"problem  lease ops/keeper: cannot be read or renewed: ":          {Lease: follows.Lease, Attempts: 2, Failure: &leaderelection.Failure{Err: errQuota}},
	} {
		require.True(t, strings.HasPrefix(said(func(x *examination) { x.election(&debug.Status{Election: &e}) }), want), want)
	}

	informer := func(relists uint64) *debug.Informer {
		return &debug.Informer{Status: sharedinformer.Status{Reflector: reflector.Status{Resource: "pods", Relists: relists}}}
	}
	before := &debug.Status{Informers: []debug.Informer{*informer(1)}}
	for relists, want := range map[uint64]string{2: "", 4: "3 times within 5s", 8: "7 times within 5s"} {
		require.Contains(t, said(func(x *examination) { x.relists(before, informer(relists), 5*time.Second, time.Hour) }), want)
	}
	before = &debug.Status{Informers: []debug.Informer{*informer(12)}}
	require.Contains(t, said(func(x *examination) { x.relists(before, informer(12), 5*time.Second, time.Hour) }), "all objects were listed again 12 times in 1h0m0s")
	require.Empty(t, said(func(x *examination) { x.relists(before, informer(12), 5*time.Second, 24*time.Hour) }))
}
