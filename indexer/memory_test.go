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

// The strings of an object lie side by side in memory: whoever keeps one of them
// keeps them all. So the cache keeps none of an object that it has no longer.
func TestReplacedObjectsLeaveNothing(t *testing.T) {
	x := New[*metav1.PartialObjectMetadata]()
	_, failures := AddIndex(x, "label", func(o *metav1.PartialObjectMetadata) []string { return []string{o.Labels["app"]} })
	require.Empty(t, failures)
	set := func(rv string) weak.Pointer[byte] {
		text := strings.Clone("the namespace/the name/the app")
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: text[:13], Name: text[14:22], UID: types.UID("1"), ResourceVersion: rv, Labels: map[string]string{"app": text[23:]}}}
		x.Write(func(w Writer[*metav1.PartialObjectMetadata]) { w.Set(object.KeyOf(o), o) })
		return weak.Make(unsafe.StringData(text))
	}
	first := set("1")
	second := set("2")
	runtime.GC()
	require.Nil(t, first.Value())
	require.NotNil(t, second.Value())
	runtime.KeepAlive(x)
}
