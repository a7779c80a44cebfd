package get

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
)

func TestOrderOfValues(t *testing.T) {
	all := []any{"b", int64(3), nil, "10Gi", true, "a", "9Mi", 2.5, map[string]any{}, false, "1e999999999", "2026-01-02T03:04:05Z"}
	var items []item
	for _, v := range all {
		items = append(items, item{tree: map[string]any{"v": v}})
	}
	items = append(items, item{tree: map[string]any{}})
	place, err := jsonpath.ParsePath(".v")
	require.NoError(t, err)
	require.True(t, sortBy(place, items))
	var order []any
	for _, one := range items {
		order = append(order, one.tree["v"])
	}
	require.Equal(t, []any{nil, nil, false, true, 2.5, int64(3), "9Mi", "10Gi", "1e999999999", "2026-01-02T03:04:05Z", "a", "b", map[string]any{}}, order)
}
