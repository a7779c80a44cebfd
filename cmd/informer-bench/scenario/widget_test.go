package scenario

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/objects"
)

// TestWidgetHasEveryField: typed contestants must decode as much as untyped ones.
func TestWidgetHasEveryField(t *testing.T) {
	for _, o := range []objects.Options{{}, {Hostile: true}} {
		want, err := json.Marshal(objects.Widget(1, 7, o))
		require.NoError(t, err)
		var w Widget
		require.NoError(t, json.Unmarshal(want, &w))
		got, err := json.Marshal(w.DeepCopy())
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	}
}
