package json

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// The names that a decoder has learned and the buffers of a large object are bounded and released.
func TestW02_JSONRunsStaySmall(t *testing.T) {
	d := NewDecoder(share.NewPool(), nil)
	for i := range 3 * maxPaths {
		// Each name occurs in two objects.
		body := fmt.Appendf(nil, `{"spec":{"a%d":{"x":1},"a%d":{"x":1}}}`, i, i+1)
		value, err := (&frame.JSON{Source: frame.FromBytes(body), MaxBytes: 1000, MaxDepth: 10}).Value()
		require.NoError(t, err)
		_, err = d.DecodeUntyped(value)
		require.NoError(t, err)
		require.LessOrEqual(t, d.untyped.pathCount, maxPaths)
	}
	require.Positive(t, d.untyped.pathCount)

	large := `{"a":[` + strings.Repeat("{},", 2*maxReusedNodes) + `{}]}`
	s := &frame.JSON{Source: frame.FromBytes([]byte(large + "[1]")), MaxBytes: 1 << 20, MaxDepth: 10}
	value, err := s.Value()
	require.NoError(t, err)
	_, err = d.DecodeUntyped(value)
	require.NoError(t, err)
	require.LessOrEqual(t, cap(d.untyped.nodes), maxReusedNodes)
}
