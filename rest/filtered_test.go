package rest

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

func podSource(t *testing.T) *lister {
	return ResourceFor[*corev1.Pod](podsServer(t)).Source().(*lister)
}

// Lists and watches leave out unwanted objects, unpacked and packed, on every page.
func TestFilteredLeavesOut(t *testing.T) {
	pods := podSource(t)
	wanted := func(o object.Head) bool { return o.GetName() == "b" && o.GetLabels()["app"] != "" }
	leavesOut(t, pods, source.Request{Wanted: wanted})
	leavesOut(t, pods, source.Request{Wanted: wanted, Packer: wire.NewPacker(nil)})
	leavesOut(t, source.Filtered(pods, wanted), source.Request{Packer: wire.NewPacker(nil)})
}

func leavesOut(t *testing.T, from source.ListerWatcher, req source.Request) {
	t.Helper()
	var got []string
	paged := req
	paged.Limit = 2
	list := from.List(t.Context(), paged)
	for o, err := range list.Items {
		require.NoError(t, err)
		got = append(got, o.GetName())
	}
	require.Equal(t, "9", list.Meta.ResourceVersion)
	events, err := from.Watch(t.Context(), req)
	require.NoError(t, err)
	for e, err := range events {
		require.NoError(t, err)
		if e.Passed != nil {
			got = append(got, "passed "+e.Passed.Key.Name)
			continue
		}
		got = append(got, e.Object.GetName())
	}
	require.Equal(t, []string{"b", "passed a", "b"}, got)
}

// A page whose objects are all unwanted is not an empty page.
func TestPageWithoutSelectedObjectsIsNotEmpty(t *testing.T) {
	list := &pageReader{
		reading: podSource(t).reading(source.Request{Wanted: func(object.Head) bool { return false }}),
		empty:   maxEmptyPages - 1,
	}
	goOn, err := list.page(t.Context(), new(metav1.ListMeta), func(object.Head, error) bool { t.Error("an item"); return false })
	require.NoError(t, err)
	require.True(t, goOn)
	require.Zero(t, list.empty)
}

func allBut(name string) func(object.Head) bool {
	return func(h object.Head) bool { return h.GetName() != name }
}

// Filters of a source and of a request are combined.
func TestFilteredTwiceAppliesBothFilters(t *testing.T) {
	pods := source.Filtered(source.Filtered(podSource(t), allBut("a")), allBut("y"))
	for name, packer := range map[string]*wire.Packer{"whole": nil, "packed": wire.NewPacker(nil)} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{"x"}, itemNames(t, pods.List(t.Context(), source.Request{Wanted: allBut("b"), Packer: packer})))
		})
	}
}

// "Two sources whose origins agree in all but the function yield the same objects." A
// source that filters by a function cannot express that in its origin, so it has none.
// Otherwise an informer of all objects would use a snapshot of some, or the other way
// round.
func TestFilteredSourceHasAnotherOrigin(t *testing.T) {
	pods := podSource(t)
	whole, _ := pods.Describe().Origin()
	require.NotEmpty(t, whole.Server)
	same := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
	for name, from := range map[string]source.ListerWatcher{
		"a resource":         source.Filtered(pods, allBut("a")),
		"transformed":        source.Filtered(reflector.Transformed(pods, same), allBut("a")),
		"chosen beneath":     reflector.Transformed(source.Filtered(pods, allBut("a")), same),
		"completed, as well": source.Complete(reflector.Transformed(source.Filtered(pods, allBut("a")), same)),
	} {
		require.Nil(t, from.Describe().Origin, name)
	}
}
