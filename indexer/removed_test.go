package indexer

import (
	"runtime"
	"strconv"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A handle of an index that was removed keeps no object.
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
