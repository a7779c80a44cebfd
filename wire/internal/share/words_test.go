package share

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	for _, w := range wordTable.list[1:] {
		found := Word([]byte(w))
		require.Equal(t, w, found)
		require.Same(t, unsafe.StringData(w), unsafe.StringData(found))
		for at := range len(w) {
			other := []byte(w)
			other[at] ^= 1
			require.Contains(t, []string{"", string(other)}, Word(other))
		}
		require.Empty(t, Word([]byte(w+"?")))
	}
	require.Empty(t, Word(nil))
	require.Less(t, len(wordTable.list), 256)
}
