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

// Lists and watches lack what is not wanted, whole and packed, on every page.
func TestChoosingLeavesOut(t *testing.T) {
	pods := podSource(t)
	wanted := func(o object.Head) bool { return o.GetName() == "b" && o.GetLabels()["app"] != "" }
	leavesOut(t, source.Choosing(pods, wanted))
	packing := source.Packing(pods, wire.NewPacker(nil))
	leavesOut(t, source.Choosing(packing, wanted))
	leavesOut(t, source.Packing(pods.Choosing(wanted), wire.NewPacker(nil)))
}

func leavesOut(t *testing.T, from source.ListerWatcher) {
	t.Helper()
	var got []string
	list := from.List(t.Context(), metav1.ListOptions{Limit: 2})
	for o, err := range list.Items {
		require.NoError(t, err)
		got = append(got, o.GetName())
	}
	require.Equal(t, "9", list.Meta.ResourceVersion)
	events, err := from.Watch(t.Context(), metav1.ListOptions{})
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

// A page of which nothing is wanted is not an empty one.
func TestAPageOfWhichNothingIsWantedIsNotEmpty(t *testing.T) {
	list := &pageReader{
		lister: podSource(t).Choosing(func(object.Head) bool { return false }).(*lister),
		empty:  maxEmptyPages - 1,
	}
	goOn, err := list.page(t.Context(), new(metav1.ListMeta), func(object.Head, error) bool { t.Error("an item"); return false })
	require.NoError(t, err)
	require.True(t, goOn)
	require.Zero(t, list.empty)
}

func allBut(name string) func(object.Head) bool {
	return func(h object.Head) bool { return h.GetName() != name }
}

// What a source lacks already stays away, whatever is left out besides.
func TestChoosingTwiceLeavesOutWhatEitherRefuses(t *testing.T) {
	pods := podSource(t)
	t.Run("whole", func(t *testing.T) {
		for o, err := range source.Choosing(pods.Choosing(allBut("a")), allBut("b")).List(t.Context(), metav1.ListOptions{Limit: 2}).Items {
			require.NoError(t, err)
			require.NotEqual(t, "a", o.GetName())
		}
	})
	t.Run("packed", func(t *testing.T) {
		packed := source.Packing(pods.Choosing(allBut("a")), wire.NewPacker(nil))
		for o, err := range source.Choosing(packed, allBut("b")).List(t.Context(), metav1.ListOptions{Limit: 2}).Items {
			require.NoError(t, err)
			require.NotEqual(t, "a", o.GetName())
		}
	})
}

// "Two sources whose origins agree in all but the function yield the same objects." A source
// that leaves out what a function refuses cannot say so, and has no origin; else an informer
// of all believes the snapshot of some, or the other way round.
func TestAChosenSourceHasNotTheOriginOfTheWhole(t *testing.T) {
	pods := podSource(t)
	whole, _ := pods.Origin()
	require.NotEmpty(t, whole.Server)
	same := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
	for name, from := range map[string]any{
		"a resource":  pods.Choosing(allBut("a")),
		"transformed": source.Choosing(reflector.Transformed(pods, same), allBut("a")),
		"packed":      source.Choosing(source.Packing(reflector.Transformed(pods, same), wire.NewPacker(nil)), allBut("a")),
	} {
		_, ok := source.OriginOf(from)
		require.False(t, ok, name)
	}
}
