package indexer

import (
	"runtime"
	"strconv"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// The handle of a removed index keeps no object.
func TestARemovedIndexKeepsNoObject(t *testing.T) {
	x := New()
	var gone []weak.Pointer[metav1.PartialObjectMetadata]
	for n := range 100 {
		o := obj("n", strconv.Itoa(n), 1, "web")
		gone = append(gone, weak.Make(o))
		set(x, o)
	}
	i, _ := AddIndex(x, "app", apps)
	i.Remove()
	x.Write(func(w Writer) { w.Replace("", nil, func(Change) {}) })
	runtime.GC()
	runtime.GC()
	kept := 0
	for _, w := range gone {
		if w.Value() != nil {
			kept++
		}
	}
	runtime.KeepAlive(i)
	runtime.KeepAlive(x)
	require.Zero(t, kept)
}

// An object modified in the cache, against L16, leaves no stale entry in an index.
func TestL15_AnObjectThatWasChangedInPlaceLeavesTheIndex(t *testing.T) {
	key := object.Key{Namespace: "n", Name: "a"}
	for name, then := range map[string]func(w Writer){
		"it goes":    func(w Writer) { w.Delete(key) },
		"it changes": func(w Writer) { w.Set(key, obj("n", "a", 2, "other")) },
	} {
		t.Run(name, func(t *testing.T) {
			x := New()
			byApp, _ := AddIndex(x, "app", apps)
			cached := obj("n", "a", 1, "x")
			set(x, cached, obj("n", "b", 1, "x"))
			cached.Labels["apps"] = "changed in place"
			failures := x.Write(then)
			require.Equal(t, []string{"n/b@1"}, names(byApp.Get("x")))
			require.Zero(t, byApp.Len("changed in place"))
			require.Len(t, failures, 1)
			require.EqualError(t, failures[0], `index "app": n/a was modified while cached, and was indexed under values it no longer has; cached objects are shared: modify a copy`)
		})
	}
}
