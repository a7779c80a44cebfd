package indexer

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// The strings of an object lie next to each other in memory: a reference to one keeps all of them.
// So the cache must not keep any string of an object that it no longer holds.
func TestReplacedObjectsLeaveNothing(t *testing.T) {
	x := New()
	type app string
	AddIndex(x, "label", func(o *metav1.PartialObjectMetadata) []string { return []string{o.Labels["app"]} })
	AddIndex(x, "app", func(o *metav1.PartialObjectMetadata) []app { return []app{app(o.Labels["app"])} })
	AddIndex(x, "key", func(o *metav1.PartialObjectMetadata) []object.Key {
		return []object.Key{{Namespace: o.Namespace, Name: o.Labels["app"]}}
	})
	AddIndex(x, "both", func(o *metav1.PartialObjectMetadata) [][2]app {
		return [][2]app{{app(o.Namespace), app(o.Labels["app"])}}
	})
	set := func(rv string) weak.Pointer[byte] {
		text := strings.Clone("the namespace/the name/the app")
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: text[:13], Name: text[14:22], UID: types.UID("1"), ResourceVersion: rv, Labels: map[string]string{"app": text[23:]}}}
		x.Write(func(w Writer) { w.Set(object.KeyOf(o), o) })
		return weak.Make(unsafe.StringData(text))
	}
	first := set("1")
	second := set("2")
	runtime.GC()
	require.Nil(t, first.Value())
	require.NotNil(t, second.Value())
	runtime.KeepAlive(x)
}
