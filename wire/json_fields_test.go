package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/json"
)

// treeNames are the field names in random trees. There are few of them, so that selections match,
// and some appear twice in one object.
var treeNames = []string{"a", "b", "c", "d", "items", "metadata", "name", "uid", "kind", "app.kubernetes.io/name", "a.b", "", "é", "a long name that no place learns, since it has more than so many bytes"}

// treeScalars are values that are neither objects nor lists.
var treeScalars = []string{`null`, `true`, `false`, `0`, `-7`, `300`, `1.5`, `123456789012`, `""`, `"x"`, `"Always"`, `"\u00e9\n"`, `"a text that is long enough to be shared"`}

// randomTree returns a value of at most the given depth. Its fields may appear twice and be null.
func randomTree(random *rand.Rand, depth int) *jsonValue {
	if depth == 0 || random.IntN(4) == 0 {
		return &jsonValue{scalar: treeScalars[random.IntN(len(treeScalars))]}
	}
	v := &jsonValue{open: '{', gap: []string{"", "", "", " \n"}[random.IntN(4)]}
	if random.IntN(3) == 0 {
		v.open = '['
	}
	for range random.IntN(6) {
		if v.parts = append(v.parts, randomTree(random, depth-1)); v.open == '{' {
			name, _ := unescapedName(random)
			v.names = append(v.names, name)
		}
	}
	return v
}

// unescapedName returns a quoted JSON name, sometimes with escapes, and the name itself.
func unescapedName(random *rand.Rand) (quoted, name string) {
	name = treeNames[random.IntN(len(treeNames))]
	quoted = `"` + name + `"`
	if random.IntN(8) == 0 {
		quoted = escaped(random, quoted)
	}
	return quoted, name
}

// randomPaths selects fields of random trees.
func randomPaths(random *rand.Rand) Fields {
	var paths []string
	for range 1 + random.IntN(5) {
		var path []string
		for len(path) == 0 || random.IntN(3) > 0 {
			if _, name := unescapedName(random); name != "" {
				path = append(path, name)
			}
		}
		paths = append(paths, strings.Join(path, "."))
	}
	if random.IntN(2) == 0 {
		return Only(paths...)
	}
	return Without(paths...)
}

// randomWidget returns a widget that contains a random tree.
func randomWidget(random *rand.Rand, name string) []byte {
	metadata := fmt.Sprintf(`{"name":%q,"uid":"u","a":%s,"labels":%s}`, name, randomTree(random, 2).encode(nil), randomTree(random, 1).encode(nil))
	return fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":%s,"a":%s,"b":%s,"items":%s,"b":%s}`, metadata,
		randomTree(random, 5).encode(nil), randomTree(random, 3).encode(nil), randomTree(random, 5).encode(nil), randomTree(random, 2).encode(nil))
}

// Objects without a Go type, with any content and selection, equal the reference's result after
// pruning.
func TestW04_UntypedJSONIsProjectedExactly(t *testing.T) {
	SkipUnderRace(t)
	t.Parallel()
	const seed = 20261122
	random := rand.New(rand.NewPCG(seed, 0))
	pool := NewPool() // shared by all selections, which must not mix
	for n := range portion(400) {
		f := randomPaths(random)
		c := newContest[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind, Keep: f}, pool)
		var bodies [][]byte
		for i := range 3 {
			body := randomWidget(random, fmt.Sprintf("w%d", i))
			bodies = append(bodies, body, body, body, body)
		}
		random.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
		c.objects(t, bodies[0], "object %d, %s, seed %d: %s", n, f, seed, bodies[0])
		c.lists(t, listOf(t, MediaJSON, widgetKind, bodies), "list %d, %s, seed %d", n, f, seed)
		c.watches(t, watchOf(t, MediaJSON, bodies), "watch %d, %s, seed %d", n, f, seed)
	}
}

// With the usual selections and the objects of benchmarks, the compiled decoder does not need the
// reference, and the selected parts are shared.
func TestW04_ProjectedUntypedObjectsShare(t *testing.T) {
	kind := objects.WidgetVersion().WithKind(objects.WidgetKind)
	var widgets []any
	for i := range 4 {
		widgets = append(widgets, objects.Widget(1, i*objects.Apps, objects.Options{}))
	}
	body := indentedList(t, kind, "", widgets)
	all := NewPool()
	for _, f := range []Fields{WithoutManagedFields, Only("metadata.labels", "spec"), Without("status", "spec.template.spec.containers.name")} {
		opts := Options{Kind: kind, Keep: f}
		newContest[*unstructured.Unstructured](t, MediaJSON, opts, all).lists(t, body, "%s", f)

		opts.Pool = NewPool()
		got, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, opts), bytes.NewReader(body))
		require.NoError(t, err)
		require.True(t, sameMap(got[2].Object["spec"], got[3].Object["spec"]) ||
			sameMap(got[2].Object["metadata"].(map[string]any)["labels"], got[3].Object["metadata"].(map[string]any)["labels"]), "%s", f)
		require.NotZero(t, opts.Pool.Len(), "%s", f)

		d := plainOf(decoderOfType[*unstructured.Unstructured](t, MediaJSON, opts)).(*decoder).encoding.(*jsonEncoding)
		i, err := d.scan(frame.FromBytes(encodeAs(t, MediaJSON, kind, got[0]))).Value()
		require.NoError(t, err)
		_, err = json.NewDecoder(opts.Pool.sharePool(), d.fields).DecodeUntyped(i)
		require.NoError(t, err, "it needs the reference")
		runtime.KeepAlive(got)
	}
}

// One pool serves all selections: equal bytes are different parts if a selection removes something
// inside, and the same part otherwise.
func TestW04_SelectionsDoNotMix(t *testing.T) {
	const widget = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"inner":{"one":"1","two":"2"},"other":{"one":"1","two":"2"}}}`
	body := listOf(t, MediaJSON, widgetKind, bytes.Split([]byte(strings.Repeat(widget+"\n", 6)), []byte("\n"))[:6])
	pool := NewPool()
	read := func(f Fields) (inner, other any) {
		items, _, err := readList(decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind, Keep: f, Pool: pool}), bytes.NewReader(body))
		require.NoError(t, err)
		spec := items[5].Object["spec"].(map[string]any)
		return spec["inner"], spec["other"]
	}
	whole := map[string]any{"one": "1", "two": "2"}
	inner, other := read(Fields{})
	require.Equal(t, []any{whole, whole}, []any{inner, other})
	cut, uncut := read(Without("spec.inner.two"))
	require.Equal(t, []any{map[string]any{"one": "1"}, whole}, []any{cut, uncut})
	left, again := read(Without("spec.inner.one"))
	require.Equal(t, []any{map[string]any{"two": "2"}, whole}, []any{left, again})
	require.True(t, sameMap(uncut, again))
	only, none := read(Only("spec.inner.two"))
	require.Equal(t, []any{map[string]any{"two": "2"}, nil}, []any{only, none})
	runtime.KeepAlive([]any{inner, other, cut, uncut, left, again, only})
}

// Dropped fields are checked: if they are not valid JSON, the object is refused.
func TestW02_DroppedJSONIsChecked(t *testing.T) {
	for _, bad := range []string{`tru`, `01`, `"\x"`, `[1,]`, `{"a"}`, `{"a":1,}`, `[1}`, "\"\x01\""} {
		body := fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"status":%s,"spec":{"x":%s}}`, bad, bad)
		for _, f := range []Fields{Without("status", "spec"), Only("status.deep"), Only("spec.x.y")} {
			_, err := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind, Keep: f}).Object(body)
			require.Error(t, err, "%s, %s", bad, f)
		}
	}
}

// FuzzUntypedFieldsJSON decodes a text with a selection. If the reference returns a value, the
// result equals it.
func FuzzUntypedFieldsJSON(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		f.Add("a.b,metadata.labels", false, randomWidget(random, "w"))
		f.Add("a,items.c", true, randomWidget(random, "w"))
	}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, paths string, without bool, body []byte) {
		kept.Nothing(t)
		opts := fuzzOptions
		if opts.Kind, opts.Keep = widgetKind, Only(paths); without {
			opts.Keep = Without(paths)
		}
		if _, err := newTyped[*unstructured.Unstructured](MediaJSON, opts); err != nil {
			return
		}
		c := newFuzzContest[*unstructured.Unstructured](t, MediaJSON, widgetKind, NewPool())
		opts.Scheme = nil
		c.contest = newContest[*unstructured.Unstructured](t, MediaJSON, opts, NewPool())
		if _, err := c.reference.Object(bytes.Clone(body)); err != nil {
			for _, d := range c.compiled {
				withinBudget(t, body, func() { d.Object(body) })
			}
			return
		}
		c.object(t, body)
		c.list(t, listOf(t, MediaJSON, widgetKind, [][]byte{body, body, body}))
	})
}
