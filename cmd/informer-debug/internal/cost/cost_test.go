package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// costOf runs cost and reads its JSON.
func costOf(t *testing.T, args ...string) (costs, debugtest.Result) {
	t.Helper()
	r := debugtest.Invoke(t, Command, append([]string{"cost", "-o", "json", "--qps=10000"}, args...)...)
	var all costs
	if r.Out != "" {
		require.NoError(t, json.Unmarshal([]byte(r.Out), &all), r.Out)
	}
	return all, r
}

// putPods creates n pods of realistic size on a server.
func putPods(t *testing.T, srv *apiservertest.Server, n int) {
	t.Helper()
	for i := range n {
		_, err := srv.Put(objects.Pod(1, i, objects.Options{}))
		require.NoError(t, err)
	}
}

// held returns the memory of an informer of all pods.
func held[T object.Object](t *testing.T, server string, store sharedinformer.Store, keep wire.Fields) float64 {
	t.Helper()
	client, err := rest.NewClient(&config.Config{Host: strings.TrimPrefix(server, "--server=")}, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	before := heapInUse()
	from := rest.ResourceForKind[T](client, corev1.SchemeGroupVersion.WithKind("Pod")).Sharing(wire.NewPool()).Keep(keep)
	i := sharedinformer.New[T](from.Source(), sharedinformer.Options{Store: store, Flight: flight.New(1)})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wait, err := i.Start(ctx)
	require.NoError(t, err)
	require.NoError(t, i.WaitForSync(t.Context()))
	after := heapInUse()
	runtime.KeepAlive(i)
	stop()
	require.NoError(t, wait())
	return float64(after) - float64(before)
}

// A sample of a fifth predicts the memory of informers of all objects.
func TestCostMatchesTheMemoryOfInformers(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	for _, name := range []string{"web-1", "cart-1"} {
		require.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "shop", Name: name}))
	}
	const all = 2000
	putPods(t, srv, all-1)
	costs, r := costOf(t, "pods", "--sample=400", "--keep=spec.nodeName", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	c := costs.Types[0]
	require.Equal(t, all, c.Objects)
	require.Equal(t, 400, c.Sample)
	require.False(t, c.Unstructured)
	require.Empty(t, c.Short)

	near := func(want float64, got estimate, what string) {
		t.Helper()
		t.Logf("%s: %d (%d to %d), held %.0f", what, got.Bytes, got.Low, got.High, want)
		assert.Less(t, float64(got.Bytes), 1.5*want, what)
		assert.Greater(t, float64(got.Bytes), want/1.5, what)
	}
	held[*corev1.Pod](t, server, sharedinformer.Whole, wire.Fields{}) // to warm the server's cache of encoded objects
	near(held[*corev1.Pod](t, server, sharedinformer.Whole, wire.Fields{}), c.Whole, "whole")
	near(held[*corev1.Pod](t, server, sharedinformer.Packed, wire.Fields{}), c.Packed, "packed")
	near(held[*corev1.Pod](t, server, sharedinformer.Whole, wire.WithoutManagedFields), c.NoManaged, "no managed fields")
	near(held[*metav1.PartialObjectMetadata](t, server, sharedinformer.Whole, wire.Fields{}), c.Metadata, "metadata")
	near(held[*corev1.Pod](t, server, sharedinformer.Whole, wire.Only("spec.nodeName")), *c.Keep, "keep")
	near(referenced(t, server), c.ClientGo, "client-go")
	require.Less(t, c.Packed.Bytes, c.Whole.Bytes)
	require.Less(t, c.Whole.Bytes, c.ClientGo.Bytes)
	require.LessOrEqual(t, c.ClientGo.Low, c.ClientGo.Bytes)
	require.GreaterOrEqual(t, c.ClientGo.High, c.ClientGo.Bytes)
}

// referenced returns the memory of all pods decoded by apimachinery.
func referenced(t *testing.T, server string) float64 {
	t.Helper()
	client, err := rest.NewClient(&config.Config{Host: strings.TrimPrefix(server, "--server=")}, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	before := heapInUse()
	all := map[string]*corev1.Pod{}
	for o, err := range rest.ResourceFor[*corev1.Pod](client).List(t.Context(), metav1.ListOptions{}).Items {
		require.NoError(t, err)
		all[object.FormatKey(object.KeyOf(o))] = o.DeepCopy()
	}
	after := heapInUse()
	runtime.KeepAlive(all)
	return float64(after) - float64(before)
}

// The sample is spread over the whole list, without unnecessary requests.
func TestCostSpreadsItsSample(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	for i := range 1000 {
		_, err := srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("c%04d", i)}, Data: map[string]string{"a": strings.Repeat("x", i)}})
		require.NoError(t, err)
	}
	costs, r := costOf(t, "configmaps", "--sample=100", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	c := costs.Types[0]
	require.Equal(t, 1000, c.Objects)
	require.Equal(t, 100, c.Sample)
	spread := c.Wire.Bytes
	require.LessOrEqual(t, srv.Stats().Requests("list", "configmaps"), 2*mostRuns)

	costs, _ = costOf(t, "configmaps", "--sample=5000", server)
	c = costs.Types[0]
	require.Equal(t, 1000, c.Sample)
	require.Equal(t, estimate{c.Whole.Bytes, c.Whole.Bytes, c.Whole.Bytes}, c.Whole, "nothing is estimated")
	require.InEpsilon(t, c.Wire.Bytes, spread, 0.05, "the objects grow along the list")

	// With a selector, the server does not return the number of objects.
	costs, r = costOf(t, "configmaps", "--sample=50", "--field-selector=metadata.namespace=shop", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, 1000, costs.Types[0].Objects, r.Out)
	require.Equal(t, 50, costs.Types[0].Sample, r.Out)
}

// An unreadable type is shown with the cause, and the others are measured.
func TestCostRepeats(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"a": []byte("hidden")}})
	require.NoError(t, err)
	srv.SetAuthorizer(apiservertest.Deny("", "nodes"))
	r := debugtest.Invoke(t, Command, "cost", "--qps=10000", "--keep=spec.nodeName", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "nodes: could not be read: nodes is forbidden")
	require.Regexp(t, `(?m)^pods +3 +3 .* KiB$`, r.Out)
	require.Regexp(t, `(?m)^secrets +1 +1 .* -$`, r.Out, "secrets have no spec.nodeName")
	require.Regexp(t, `(?m)^no objects of .*configmaps, .*deployments\.apps, `, r.Out)
	require.Regexp(t, `(?m)^total +4 +4 `, r.Out)
	require.NotContains(t, r.Out+r.ErrOut, "hidden")
	require.NotContains(t, r.Out, "events.events.k8s.io")

	all, r := costOf(t, "nodes", server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, all.Types[0].Error, "forbidden")
	require.Contains(t, r.ErrOut, `request the verbs "list" and "watch"`)
}

// A list that fails in the middle gives a smaller sample and the reason.
func TestCostOutlivesTrouble(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	for i := range 200 {
		_, err := srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("c%04d", i)}})
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		do   apiservertest.Action
		want string
	}{
		"expired": {apiservertest.Fail{Code: 410}, "10 objects: fault: 4"},
		"gone":    {apiservertest.Fail{Code: 404}, "10 objects: fault: 4"},
		"cut":     {apiservertest.Cut{AfterBytes: 100}, "10 objects: "},
		"garbled": {apiservertest.Garble{}, "10 objects: "},
	} {
		srv.Faults().Add(apiservertest.Fault{Verb: "list", Resource: "configmaps", Skip: 1, Do: []apiservertest.Action{c.do}})
		costs, r := costOf(t, "configmaps", "--sample=200", server)
		srv.Faults().Clear()
		require.Equal(t, exit.CodeOK, r.Code, "%s: %s", name, r.ErrOut)
		t.Log(costs.Types[0].Short)
		require.Contains(t, costs.Types[0].Short, c.want, name)
		require.Equal(t, 10, costs.Types[0].Sample, name)
		require.Equal(t, 200, costs.Types[0].Objects, name)
	}
}

func TestCostExplainsErrors(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	page := httptest.NewServer(debugtest.LoginPage{})
	defer page.Close()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cost", "pods", "--sample=0", server}, exit.CodeUsage, "--sample must be from 1 to"},
		{[]string{"cost", "pods", "--qps=0", server}, exit.CodeUsage, "--qps must be positive, got 0"},
		{[]string{"cost", "--attach=http://localhost:1"}, exit.CodeUsage, "get --attach"},
		{[]string{"cost", "sheep", server}, exit.CodeUnavailable, "sheep"},
		{[]string{"cost", "--server=" + page.URL}, exit.CodeUnavailable, "login"},
		{[]string{"cost", "pods", "--server=http://127.0.0.1:1"}, exit.CodeUnavailable, "127.0.0.1:1"},
	} {
		r := debugtest.Invoke(t, Command, c.args...)
		assert.Equal(t, c.code, r.Code, "%v: %s%s", c.args, r.Out, r.ErrOut)
		assert.Contains(t, r.ErrOut, c.want, c.args)
	}
	// A page instead of a list, from a server whose discovery worked.
	s := sampler{flags: &costFlags{sample: 10, qps: 1e6}, http: page.Client()}
	var err error
	s.base, err = s.base.Parse(page.URL)
	require.NoError(t, err)
	one := sample{r: &s, at: cluster.Target{}}
	err = one.read(t.Context())
	require.ErrorContains(t, err, "is a proxy or a login page in the way?")
}

func TestEstimate(t *testing.T) {
	w := weight{of: [fourths]int64{1000, 100, 120, 110}}
	even := [fourths]int{10, 10, 10, 10}
	require.Equal(t, estimate{1330, 1330, 1330}, w.estimate(even, 40, true))
	require.Equal(t, estimate{1330 + 660, 1330 + 600, 1330 + 720}, w.estimate(even, 100, true), "the first fourth has what is there once")
	require.Equal(t, estimate{1330 + 1995, 1330 + 600, 1330 + 6000}, w.estimate(even, 100, false))
	require.Equal(t, "1.9 KiB ±3%", w.estimate(even, 100, true).String())
	require.Equal(t, "1.3 KiB", w.estimate(even, 40, true).String())
	require.Equal(t, estimate{}, weight{}.estimate([fourths]int{}, 0, true))
	require.Equal(t, estimate{0, 0, 0}, weight{of: [fourths]int64{-5}}.estimate([fourths]int{1}, 1, true))
	require.Equal(t, estimate{100, 100, 100}, weight{of: [fourths]int64{10}}.estimate([fourths]int{1}, 10, true))
}
