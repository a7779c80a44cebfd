package memory

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// roomy leads to slices in every possible way.
type roomy struct {
	Bytes   []byte
	Nested  [][]string
	Array   [2][]int
	ByName  map[string][]string
	Any     any
	Tree    any
	To      *roomy
	Plain   map[string]string
	private []byte
	inner
}

type inner struct{ Promoted []int }

func TestClipReachesEverySlice(t *testing.T) {
	room := func() []string { return make([]string, 1, 8) }
	v := &roomy{
		Bytes: make([]byte, 1, 8), Nested: append(make([][]string, 0, 8), room()), Array: [2][]int{1: make([]int, 1, 8)},
		ByName: map[string][]string{"a": room()}, Any: room(), Plain: map[string]string{"a": "b"},
		Tree:    map[string]any{"list": append(make([]any, 0, 8), map[string]any{"deep": room()})},
		private: make([]byte, 1, 8), inner: inner{make([]int, 1, 8)},
	}
	v.To = &roomy{Bytes: make([]byte, 1, 8), To: v} // a cycle
	Clip(reflect.ValueOf(v).Elem())
	list := v.Tree.(map[string]any)["list"].([]any)
	for name, room := range map[string]int{
		"a slice": cap(v.Bytes), "a slice of slices": cap(v.Nested), "an element": cap(v.Nested[0]), "an array": cap(v.Array[1]),
		"a map": cap(v.ByName["a"]), "an interface": cap(v.Any.([]string)), "a tree": cap(list),
		"the depth of a tree": cap(list[0].(map[string]any)["deep"].([]string)), "a pointer": cap(v.To.Bytes), "an embedded field": cap(v.Promoted),
	} {
		require.Equal(t, 1, room, name)
	}
	require.Equal(t, 8, cap(v.private), "nobody else can append to it")
	require.Equal(t, map[string]string{"a": "b"}, v.Plain)
}

func TestClipOfNothing(t *testing.T) {
	var v roomy
	Clip(reflect.ValueOf(&v).Elem())
	require.Zero(t, v)
	n := 1
	Clip(reflect.ValueOf(&n).Elem())
	require.Equal(t, 1, n)
}
