package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// TestManyWatches opens more watches than the server allows on one connection.
func TestManyWatches(t *testing.T) {
	client, ns := admin(t)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	var all []*follower[*corev1.ConfigMap]
	for n := range 300 {
		opts := sharedinformer.Options{}
		opts.LabelSelector = parseLabels(t, fmt.Sprintf("n=%d,m!=%d", n%10, n))
		all = append(all, follow(t, maps, opts))
	}
	for n := range 10 {
		_, err := maps.Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, f := range all {
		f.sync()
		f.awaitLen(1)
		require.Zero(t, f.Status().Reflector.Failures, "%s", f)
	}
}

// TestLargeObject transfers objects near the size limit of the server.
func TestLargeObject(t *testing.T) {
	client, ns := admin(t)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	typed := follow(t, maps, sharedinformer.Options{})
	loose := follow(t, rest.ResourceForKind[*unstructured.Unstructured](client, kind).Namespace(ns), sharedinformer.Options{})
	typed.sync()
	loose.sync()
	for n := range 3 {
		c := configMap(n)
		c.Data["large"] = strings.Repeat("\"<&\x01é", 1<<20/6) // several times as long in JSON
		c.Data["large"] = c.Data["large"][:1<<20-4096]
		c.Data["large"] = strings.ToValidUTF8(c.Data["large"], "")
		_, err := maps.Create(t.Context(), c, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	typed.agree()
	loose.agree()
}

// TestUndecodable creates an object that the Go type cannot hold. The informer names it, keeps its
// cache, and continues after the object is deleted.
func TestUndecodable(t *testing.T) {
	client, ns := admin(t)
	kind := object.GVK{Group: "odd.example.com", Version: "v1", Kind: "Gadget"}
	define(t, client, "gadgets", kind)
	gadgets := rest.ResourceForKind[*Gadget](client, kind).Namespace(ns)
	loose := rest.ResourceForKind[*unstructured.Unstructured](client, kind).Namespace(ns)
	odd := func() {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1), "parts": "none"}}}
		u.SetName("odd")
		_, err := loose.Create(t.Context(), u, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err := gadgets.Create(t.Context(), &Gadget{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	opts := sharedinformer.Options{}
	opts.Timing.Backoff = brisk
	early := follow(t, gadgets, opts)
	early.sync()
	odd()
	late := follow(t, gadgets, opts)
	for _, f := range []*follower[*Gadget]{early, late} {
		f.awaitStatus("the object is reported", func(s sharedinformer.Status) bool {
			return s.Reflector.Attempts > 2 && s.Reflector.Failure.Phase == failure.PhaseDecode
		})
		require.Regexp(t, `^gadgets\.odd\.example\.com in namespace `+ns+`: decode: `+ns+`/odd: .*parts`, f.Status().Reflector.Failure.Error())
	}
	require.False(t, late.HasSynced(), "%s", late)
	require.True(t, early.HasSynced())
	early.awaitLen(1)

	require.NoError(t, loose.Delete(t.Context(), object.Key{Name: "odd"}, metav1.DeleteOptions{}))
	_, err = gadgets.Create(t.Context(), &Gadget{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	late.agree()
	early.agree()
}

// TestShortWatches makes the server end each watch after a second, while objects come and go.
func TestShortWatches(t *testing.T) {
	client, ns := admin(t)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	opts := sharedinformer.Options{}
	opts.Timing.WatchTimeout = time.Second
	busy := follow(t, maps, opts)
	quiet := follow(t, rest.ResourceFor[*corev1.Secret](client).Namespace(ns), opts)
	busy.sync()
	quiet.sync()
	for n := 0; busy.Status().Reflector.Watches < 6; n++ {
		_, err := maps.Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
		if n%3 == 0 {
			require.NoError(t, maps.Delete(t.Context(), object.Key{Name: name(n)}, metav1.DeleteOptions{}))
		}
	}
	quiet.awaitStatus("some watches", func(s sharedinformer.Status) bool { return s.Reflector.Watches >= 6 })
	busy.agree()
	quiet.agree()
	require.Zero(t, busy.calls().unknown)
	for _, s := range []reflector.Status{busy.Status().Reflector, quiet.Status().Reflector} {
		require.Equal(t, []uint64{1, 0, 0}, []uint64{s.Lists, s.Failures, s.Duplicates}, "%+v", s)
	}
}
