package wire

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	for _, w := range words.list[1:] {
		found := word([]byte(w))
		require.Equal(t, w, found)
		require.Same(t, unsafe.StringData(w), unsafe.StringData(found))
		for at := range len(w) {
			other := []byte(w)
			other[at] ^= 1
			require.Contains(t, []string{"", string(other)}, word(other))
		}
		require.Empty(t, word([]byte(w+"?")))
	}
	require.Empty(t, word(nil))
	require.Less(t, len(words.list), 256)
}
