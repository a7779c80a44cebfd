package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
)

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

func tree(fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields}
}

func TestChanges(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		old, new m
		want     string
	}{
		"nothing":     {m{"spec": m{"a": int64(1)}}, m{"spec": m{"a": int64(1)}}, ""},
		"value":       {m{"status": m{"phase": "Pending"}}, m{"status": m{"phase": "Running"}}, "status.phase: Pending→Running"},
		"added":       {m{"spec": m{}}, m{"spec": m{"nodeName": "n1", "hard": m{"a": "b"}}}, "+spec.nodeName=n1, +spec.hard={1}"},
		"removed":     {m{"metadata": m{"labels": m{"app.io/x": "1"}}}, m{"metadata": m{"labels": m{}}}, "-metadata.labels[app.io/x]"},
		"named items": {m{"status": m{"conditions": []any{m{"type": "Ready", "status": "False"}}}}, m{"status": m{"conditions": []any{m{"type": "Init", "status": "True"}, m{"type": "Ready", "status": "True"}}}}, "status.conditions[Ready].status: False→True, +status.conditions[Init]={2}"},
		"items":       {m{"spec": m{"args": []any{"a", "b"}}}, m{"spec": m{"args": []any{"a", "c"}}}, "spec.args[1]: b→c"},
		"lengths":     {m{"spec": m{"args": []any{"a"}}}, m{"spec": m{"args": []any{"a", "c"}}}, "spec.args: [1]→[2]"},
		"types":       {m{"spec": m{"a": "1"}}, m{"spec": m{"a": int64(1)}}, "spec.a: 1→1"},
		"noise":       {m{"metadata": m{"resourceVersion": "1", "generation": int64(1), "managedFields": []any{}}}, m{"metadata": m{"resourceVersion": "2", "generation": int64(2), "managedFields": []any{m{}}}}, ""},
		"order":       {m{"metadata": m{"labels": m{"a": "1"}}, "status": m{"lastTime": "1", "b": nil}, "spec": m{"z": false}}, m{"metadata": m{"labels": m{"a": "2"}}, "status": m{"lastTime": "2", "b": "x y"}, "spec": m{"z": true}}, `spec.z: false→true, status.b: null→"x y", metadata.labels.a: 1→2, and 1 more`},
		"hostile":     {m{"data": m{"k": "a"}}, m{"data": m{"k": "\x1b[2J" + string(make([]byte, 99))}}, `data.k: a→"\x1b[2J` + `\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00…"`},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := changesBetween(tree(c.old), tree(c.new))
			require.NoError(t, err)
			assert.Equal(t, c.want, summarize(changes, true))
		})
	}
}

func TestChangesOfMetadataAlone(t *testing.T) {
	a := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x", ResourceVersion: "1"}}
	b := a.DeepCopy()
	b.ResourceVersion, b.Finalizers = "2", []string{"example.com/hold"}
	changes, err := changesBetween(a, b)
	require.NoError(t, err)
	assert.Equal(t, "+metadata.finalizers=[1]", summarize(changes, true))
}

func TestSecretValuesAreNotShownInPassing(t *testing.T) {
	a := tree(map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": "b2xk"}})
	b := tree(map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": "bmV3", "more": "eA=="}})
	var out bytes.Buffer
	p := &tablePrinter{w: &out, wide: true, measure: func() widths { return widths{} }}
	require.NoError(t, p.print(&change{kind: sharedinformer.Update, object: b, old: a}))
	assert.Contains(t, out.String(), "+data.more, data.password\n")
	assert.NotContains(t, out.String(), "bmV3")
}

func TestMissedDeletionIsMarked(t *testing.T) {
	var out bytes.Buffer
	p := &tablePrinter{w: &out, measure: func() widths { return widths{} }}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", ResourceVersion: "7"}}
	require.NoError(t, p.print(&change{kind: sharedinformer.Delete, object: pod, missed: true}))
	assert.Regexp(t, `^- .* shop/web-1  +7  - +found missing; this is the last known state\n$`, out.String())
}

// TestHistogram compares quantiles with those of the sorted numbers.
func TestHistogram(t *testing.T) {
	const seed = 42
	r := rand.New(rand.NewPCG(seed, 0))
	var h histogram
	var all []time.Duration
	for range 5000 {
		d := time.Duration(r.Uint64() >> (r.IntN(50) + 8)) // all sizes, up to centuries
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.25, 0.5, 0.9, 0.99, 1} {
		want := all[int(q*float64(len(all)))-1]
		got := h.quantile(q)
		assert.GreaterOrEqual(t, got, want, "q %v, seed %d", q, seed)
		assert.LessOrEqual(t, float64(got), float64(want)*(1+1.0/16)+1, "q %v, seed %d", q, seed)
	}
	assert.Equal(t, all[len(all)-1], h.quantile(1))
	assert.Zero(t, (&histogram{}).quantile(0.5))
	h.add(-5)
	assert.Zero(t, h.quantile(0.0001))
}

func TestShortDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ns", 850: "850ns", 1000: "1.0µs", 41_200: "41µs", 9_960: "10µs", 999_600: "1.0ms", 1_230_000: "1.2ms",
		340 * time.Millisecond: "340ms", 999_700 * time.Microsecond: "1.0s", 2100 * time.Millisecond: "2.1s",
		59 * time.Second: "59s", 200 * time.Second: "3m20s", -40_000: "-40µs",
	} {
		assert.Equal(t, want, short(d), "%d ns", d)
	}
}

func TestVersionNamesTheLibraries(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeVersion(&out, &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abcdef"}},
		Deps:     []*debug.Module{{Path: "k8s.io/api", Version: "v0.37.2"}, {Path: "example.com/other", Version: "v9"}},
	}))
	assert.Contains(t, out.String(), "informer-debug      v1.2.3 abcdef\n")
	assert.Contains(t, out.String(), "k8s.io/api          v0.37.2\n")
	assert.NotContains(t, out.String(), "other")
}

func TestOneLine(t *testing.T) {
	assert.Equal(t, "a b [31mc", oneLine("a\r\nb\x1b[31mc"))
}

func TestFailureText(t *testing.T) {
	for want, f := range map[string]*failure.Failure{
		"watch: read frame 5: unexpected EOF": {Phase: failure.PhaseWatch, Err: errors.New("watch pods in namespace shop: read frame 5: unexpected EOF"), Attempts: 1},
		"watch: expired: too old (2 in a row)": {Phase: failure.PhaseWatch, Attempts: 2,
			Err: fmt.Errorf("watch pods in namespace shop: %w", apierrors.NewResourceExpired("too old"))},
		"decode frame 1: malformed (shop/web-1)": {Phase: failure.PhaseDecode, Key: object.Key{Namespace: "shop", Name: "web-1"}, Err: errors.New("watch pods in namespace shop: decode frame 1: malformed")},
		"list: no answer":                        {Phase: failure.PhaseList, Err: errors.New("list pods in namespace shop: no answer")},
	} {
		f.Resource = "pods in namespace shop with labels app=web"
		assert.Equal(t, want, failureText(f))
	}
}

// TestWorkloadIsNotAlone writes to the server of the demonstration, as anybody
// may who reads its address.
func TestWorkloadIsNotAlone(t *testing.T) {
	srv := apiserver.New(apiserver.Options{})
	defer srv.Close()
	w := newWorkload(srv, 1)
	require.NoError(t, w.begin())
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for n := range 200 {
		other := srv.Objects(pods)[0].DeepCopyObject().(*corev1.Pod)
		if n%10 == 0 {
			require.NoError(t, srv.Delete(pods, object.KeyOf(other)))
		} else {
			other.Labels["touched"] = "yes"
			_, err := srv.Update(other)
			require.NoError(t, err)
		}
		require.NoError(t, w.step())
		require.LessOrEqual(t, len(srv.Objects(pods)), manyPods)
	}
}
