package mergepatch

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
			patch, zeros := Between(before, after, nil, true, nil)
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

// A field that was not read may be zero only in the object as read.
func TestBetweenAddsOnlyZerosThatWereRead(t *testing.T) {
	type entry struct {
		Read, Other string
		Changed     bool
	}
	type all struct {
		Name    string
		Struct  entry
		Entries map[string]entry
	}
	before, err := Fields(all{Name: "n", Entries: map[string]entry{"k": {}}})
	require.NoError(t, err)
	after, err := Fields(all{Name: "n", Struct: entry{Changed: true}, Entries: map[string]entry{"k": {Changed: true}}})
	require.NoError(t, err)
	for want, read := range map[string][]string{
		`{"Struct": {"Changed": true}, "Entries": {"k": {"Changed": true}}}`:                          nil,
		`{"Struct": {"Changed": true, "Read": ""}, "Entries": {"k": {"Changed": true}}}`:              {"Struct.Read"},
		`{"Struct": {"Changed": true}, "Entries": {"k": {"Changed": true, "Read": "", "Other": ""}}}`: {"Entries.Read", "Entries.Other"},
	} {
		patch, zeros := Between(before, after, reflect.TypeFor[all](), true, func(path string) bool { return slices.Contains(read, path) })
		got, err := json.Marshal(patch)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
		require.Equal(t, len(read) > 0, zeros)
	}
}

// Of a map that goes each entry goes, of all else the whole.
func TestBetweenOfMapsInGo(t *testing.T) {
	type entry struct {
		A map[string]string `json:"a,omitempty"`
	}
	type embedded struct {
		Within map[string]string `json:"within,omitempty"`
	}
	type all struct {
		embedded
		Tagged  map[string]string `json:"tagged,omitempty"`
		Written map[string]string `json:"written"`
		Named   map[string]string `json:",omitempty"`
		Deep    map[string]*entry `json:"deep,omitempty"`
		Struct  *entry            `json:"struct,omitempty"`
		Scalar  string            `json:"scalar,omitempty"`
	}
	type hiding struct {
		embedded
		Within *entry `json:"within,omitempty"`
	}
	two := map[string]string{"x": "1", "y": "2"}
	deep := func(a map[string]string) map[string]*entry { return map[string]*entry{"k": {A: a}} }
	for name, c := range map[string]struct {
		before, after any
		want          string
	}{
		"emptied":                {all{Tagged: two}, all{Tagged: map[string]string{}}, `{"tagged": {"x": null, "y": null}}`},
		"emptied, of several":    {all{Tagged: two, Scalar: "s"}, all{Scalar: "s"}, `{"tagged": {"x": null, "y": null}}`},
		"embedded":               {all{embedded: embedded{two}, Scalar: "s"}, all{Scalar: "s"}, `{"within": {"x": null, "y": null}}`},
		"without omitempty":      {all{Written: two, Scalar: "s"}, all{Scalar: "s"}, `{"written": {"x": null, "y": null}}`},
		"without a tag":          {all{Named: two, Scalar: "s"}, all{Scalar: "s"}, `{"Named": {"x": null, "y": null}}`},
		"an entry":               {all{Deep: deep(two), Tagged: two}, all{Deep: map[string]*entry{}, Tagged: two}, `{"deep": {"k": null}}`},
		"in an entry":            {all{Deep: deep(two), Scalar: "s"}, all{Deep: deep(nil), Scalar: "s"}, `{"deep": {"k": {"a": {"x": null, "y": null}}}}`},
		"hides what is embedded": {hiding{embedded{two}, &entry{two}}, hiding{embedded{two}, nil}, `{"within": null}`},
		"a struct":               {all{Struct: &entry{two}, Scalar: "s"}, all{Scalar: "s"}, `{"struct": null}`},
		"without Go types": {
			&unstructured.Unstructured{Object: map[string]any{"kind": "W", "metadata": map[string]any{"name": "w", "labels": map[string]any{"x": "1"}}, "spec": map[string]any{"x": "1"}}},
			&unstructured.Unstructured{Object: map[string]any{"kind": "W", "metadata": map[string]any{"name": "w"}}},
			`{"metadata": {"labels": {"x": null}}, "spec": null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := Fields(c.before)
			require.NoError(t, err)
			after, err := Fields(c.after)
			require.NoError(t, err)
			patch, _ := Between(before, after, reflect.TypeOf(c.before), true, nil)
			got, err := json.Marshal(patch)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
}

func TestListsAndCarry(t *testing.T) {
	patch, err := Fields(json.RawMessage(`{"metadata": {"finalizers": ["a"]}, "spec": {"a": {"b": []}, "c": 1}}`))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"metadata.finalizers", "spec.a.b"}, Lists(patch, nil))
	gone, err := Fields(json.RawMessage(`{"metadata": {"finalizers": null}, "spec": {"c": null}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"metadata.finalizers"}, Lists(gone, map[string]any{
		"metadata": map[string]any{"finalizers": []any{"a"}}, "spec": map[string]any{"c": json.Number("1")},
	}))
	Carry(patch, "7")
	require.Equal(t, "7", patch["metadata"].(map[string]any)["resourceVersion"])
	require.Contains(t, patch["metadata"], "finalizers")
	none := map[string]any{}
	Carry(none, "")
	require.Empty(t, none, "what was never read has no version")
	_, err = Fields(func() {})
	require.Error(t, err)
}

// A map without other writers is removed as a whole.
func TestBetweenOfMapsThatAreNotShared(t *testing.T) {
	type all struct {
		Map    map[string]string `json:"map,omitempty"`
		Scalar string            `json:"scalar,omitempty"`
	}
	before, err := Fields(all{map[string]string{"x": "1", "y": "2"}, "s"})
	require.NoError(t, err)
	for want, after := range map[string]all{
		`{"map": null}`:        {map[string]string{}, "s"},
		`{"map": {"x": null}}`: {map[string]string{"y": "2"}, "s"},
	} {
		after, err := Fields(after)
		require.NoError(t, err)
		patch, _ := Between(before, after, reflect.TypeFor[all](), false, nil)
		got, err := json.Marshal(patch)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
}
