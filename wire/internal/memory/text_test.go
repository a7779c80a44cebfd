package memory

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Commit moves strings that point into a body into one allocation.
func TestTextMovesTogether(t *testing.T) {
	body := []byte("onetwo")
	var l Text
	var one, two, none string
	var three []byte
	l.SetString(&one, body[:3])
	l.SetString(&none, body[3:3])
	l.SetString(&two, body[3:])
	l.SetBytes(&three, body[:2])
	require.Same(t, unsafe.SliceData(body), unsafe.StringData(one))
	l.Commit()
	copy(body, "xxxxxx")
	require.Equal(t, []string{"one", "", "two", "on"}, []string{one, none, two, string(three)})
	require.Equal(t, unsafe.Add(unsafe.Pointer(unsafe.StringData(one)), 3), unsafe.Pointer(unsafe.StringData(two)))
}

// An object with very many strings leaves no memory behind.
func TestTextStaysSmall(t *testing.T) {
	var l Text
	strs := make([]string, 2*maxReusedRefs)
	for _, finish := range []func(){l.Commit, l.Discard} {
		for i := range strs {
			l.SetString(&strs[i], []byte(strings.Repeat("x", 2)))
		}
		finish()
		require.LessOrEqual(t, cap(l.refs), maxReusedRefs)
		require.Zero(t, l.size)
	}
}
