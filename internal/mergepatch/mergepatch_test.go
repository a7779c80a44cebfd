package mergepatch

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		name, before, after, want string
		zeros                     bool
	}{
		{"nothing", `{"a": 1, "b": {"c": [1]}}`, `{"a": 1, "b": {"c": [1]}}`, `{}`, false},
		{"comes, changes, goes", `{"a": 1, "b": 1}`, `{"b": 2, "c": 3}`, `{"a": null, "b": 2, "c": 3}`, false},
		{"within", `{"a": {"b": 1, "c": 1}}`, `{"a": {"b": 2, "c": 1}}`, `{"a": {"b": 2}}`, false},
		{"a list is replaced", `{"a": [1, 2]}`, `{"a": [2]}`, `{"a": [2]}`, false},
		{"null is missing", `{"a": null}`, `{}`, `{"a": null}`, false},
		{"an object for a scalar", `{"a": 1}`, `{"a": {"b": 2}}`, `{"a": {"b": 2}}`, false},
		{"large numbers", `{"a": 9007199254740993}`, `{"a": 9007199254740992}`, `{"a": 9007199254740992}`, false},
		{"the first of a struct", `{"x": 1, "a": {"b": 0, "c": ""}}`, `{"x": 1, "a": {"b": 1, "c": ""}}`, `{"a": {"b": 1, "c": ""}}`, true},
		{"not the first", `{"a": {"b": 0, "c": "x"}}`, `{"a": {"b": 1, "c": "x"}}`, `{"a": {"b": 1}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := Fields(json.RawMessage(c.before))
			require.NoError(t, err)
			after, err := Fields(json.RawMessage(c.after))
			require.NoError(t, err)
			patch, zeros := Between(before, after)
			got, err := json.Marshal(patch)
			require.NoError(t, err)
			want, err := Fields(json.RawMessage(c.want)) // with numbers as they are
			require.NoError(t, err)
			again, err := Fields(json.RawMessage(got))
			require.NoError(t, err)
			require.Equal(t, want, again)
			require.Equal(t, c.zeros, zeros)
		})
	}
}

func TestListsAndCarry(t *testing.T) {
	patch, err := Fields(json.RawMessage(`{"metadata": {"finalizers": ["a"]}, "spec": {"a": {"b": []}, "c": 1}}`))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"metadata.finalizers", "spec.a.b"}, Lists(patch))
	Carry(patch, "7")
	require.Equal(t, "7", patch["metadata"].(map[string]any)["resourceVersion"])
	require.Contains(t, patch["metadata"], "finalizers")
	none := map[string]any{}
	Carry(none, "")
	require.Empty(t, none, "what was never read has no version")
	_, err = Fields(func() {})
	require.Error(t, err)
}
