package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestChangesConcernPlaces(t *testing.T) {
	of := func(phase string) object.Object {
		return treeOf(map[string]any{"status": map[string]any{"phase": phase}})
	}
	place, err := jsonpath.ParsePath("status.phase")
	require.NoError(t, err)
	for _, c := range []struct {
		change change
		places []jsonpath.Path
		want   bool
	}{
		{change{object: of("a"), old: of("a")}, nil, true},
		{change{object: of("a"), old: of("a")}, []jsonpath.Path{place}, false},
		{change{object: of("b"), old: of("a")}, []jsonpath.Path{place}, true},
		{change{object: of("a")}, []jsonpath.Path{place}, true},
		{change{object: of("a"), initial: true}, []jsonpath.Path{place}, false},
		{change{object: of("a"), initial: true}, nil, true},
		{change{object: treeOf(map[string]any{})}, []jsonpath.Path{place}, false},
	} {
		got, err := c.change.concerns(c.places)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c)
	}
}

func TestValuesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	old, now := map[string]any{}, map[string]any{"gone": nil}
	for n := range 150 {
		old[strings.Repeat("a", n+1)] = long
	}
	c := change{kind: sharedinformer.Update, old: treeOf(map[string]any{"kind": "Pod", "spec": old}), object: treeOf(map[string]any{"kind": "Pod", "spec": now})}
	var b bytes.Buffer
	require.NoError(t, (&jsonPrinter{w: &b}).print(&c))
	var r record
	require.NoError(t, json.Unmarshal(bytes.Replace(b.Bytes(), []byte(`"object"`), []byte(`"other"`), 1), &r))
	require.Len(t, r.Changed, 151)
	require.Len(t, r.Changes, mostChanges)
	require.NotContains(t, b.String(), long)

	b.Reset()
	require.NoError(t, (&tablePrinter{w: &b, diff: true, measure: func() widths { return widths{} }}).print(&c))
	require.Equal(t, 1+mostBelow+1, strings.Count(b.String(), "\n"))
	require.Contains(t, b.String(), "    and 131 more\n")
}

func treeOf(fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: fields}
}
