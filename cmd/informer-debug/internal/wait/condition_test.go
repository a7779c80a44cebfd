package wait

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A condition with an older observed generation is about another spec.
func TestAConditionOfAnEarlierGenerationDoesNotCount(t *testing.T) {
	type m = map[string]any
	c, err := parseCondition("condition=Available")
	require.NoError(t, err)
	of := func(seen any) m {
		return m{"metadata": m{"generation": int64(3)}, "status": m{"observedGeneration": seen, "conditions": []any{m{"type": "Available", "status": "True"}}}}
	}
	ok, text := c.holds(of(int64(2)))
	require.False(t, ok)
	require.Equal(t, "condition Available is for generation 2, but the object has 3", text)
	ok, _ = c.holds(of(int64(3)))
	require.True(t, ok)
}
