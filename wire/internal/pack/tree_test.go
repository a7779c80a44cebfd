package pack

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/test/hostile"
)

func TestTreesAreRestored(t *testing.T) {
	for _, value := range []any{
		nil, true, false, int64(0), int64(-1), int64(math.MinInt64), int64(math.MaxInt64), 1.0, 1.5, math.Inf(1), "", "ä\x00",
		[]any{}, []any(nil), []any{nil, int64(1), 1.0}, map[string]any{}, map[string]any(nil),
		map[string]any{"a": map[string]any{"b": []any{map[string]any{"": "x"}}}, "c": nil},
		objects.Widget(1, 0, objects.Options{}).Object,
	} {
		raw, err := AppendTree(nil, value)
		require.NoError(t, err)
		got, err := Tree(string(raw))
		require.NoError(t, err)
		require.Equal(t, value, got)
		again, err := AppendTree(nil, got)
		require.NoError(t, err)
		require.Equal(t, raw, again)
	}
}

func TestInvalidTrees(t *testing.T) {
	_, err := AppendTree(nil, map[string]any{"spec": map[string]any{"replicas": 3}})
	require.ErrorContains(t, err, "spec: replicas: a int cannot be part")
}

// Nested lists cannot reserve memory for the same remaining bytes twice.
func TestW02_NestedListsOfADamagedTreeShareItsBytes(t *testing.T) {
	raw := make([]byte, 0, 1<<16)
	for len(raw) < 1<<15 {
		raw = binary.AppendUvarint(append(raw, treeList), 1<<14)
	}
	raw = raw[:1<<16]
	hostile.Budget{Memory: 1 << 20, MemoryPerByte: 100}.Within(t, len(raw), func() {
		_, err := Tree(string(raw))
		require.ErrorIs(t, err, ErrDamaged)
	})
}

// Damaged trees cause an error, and take memory in proportion to their bytes.
func FuzzDamagedTrees(f *testing.F) {
	for _, value := range []any{nil, int64(7), 1.5, "text", []any{"a"}, objects.Widget(1, 0, objects.Options{}).Object} {
		raw, err := AppendTree(nil, value)
		require.NoError(f, err)
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	f.Add([]byte{treeList, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, raw []byte) {
		value, err := Tree(string(raw))
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		_, err = AppendTree(nil, value)
		require.NoError(t, err)
	})
}
