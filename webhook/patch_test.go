package webhook

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func apply(t *testing.T, raw, before, after string) (patched string, p patch) {
	t.Helper()
	p, err := newPatch([]byte(raw), []byte(before), []byte(after))
	require.NoError(t, err)
	if len(p) == 0 {
		return raw, p
	}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	decoded, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	result, err := decoded.Apply([]byte(raw))
	require.NoError(t, err, "%s on %s", text, raw)
	return string(result), p
}

func TestPatchAppliesToTheServersObject(t *testing.T) {
	for name, c := range map[string]struct{ raw, before, after, want string }{
		"nothing": {`{"a":1}`, `{"a":1,"status":{}}`, `{"a":1,"status":{}}`, `{"a":1}`},
		"what the type writes always is not in raw": {
			`{"a":1}`, `{"a":1,"n":0,"status":{}}`, `{"a":1,"n":2,"status":{"x":1}}`, `{"a":1,"n":2,"status":{"x":1}}`,
		},
		"unknown fields stay": {
			`{"a":{"u":1,"k":1},"l":[{"u":1,"k":1},{"u":2,"k":2}]}`, `{"a":{"k":1},"l":[{"k":1},{"k":2}]}`, `{"a":{"k":2},"l":[{"k":1},{"k":3}]}`,
			`{"a":{"u":1,"k":2},"l":[{"u":1,"k":1},{"u":2,"k":3}]}`,
		},
		"removed":         {`{"a":1,"l":[1,2,3]}`, `{"a":1,"l":[1,2,3]}`, `{"l":[1,3]}`, `{"l":[1,3]}`},
		"scalars":         {`{"l":[1,2,3]}`, `{"l":[1,2,3]}`, `{"l":[1,5,3]}`, `{"l":[1,5,3]}`},
		"escaped names":   {`{"m":{"a/b":"1","c~d":"2"}}`, `{"m":{"a/b":"1","c~d":"2"}}`, `{"m":{"a/b":"3","x/y~z":"4"}}`, `{"m":{"a/b":"3","x/y~z":"4"}}`},
		"null":            {`{"a":1}`, `{"a":1}`, `{"a":null}`, `{"a":null}`},
		"large numbers":   {`{"a":9007199254740993}`, `{"a":9007199254740993}`, `{"a":9007199254740995}`, `{"a":9007199254740995}`},
		"another type":    {`{"a":{"b":1}}`, `{"a":{"b":1}}`, `{"a":[1]}`, `{"a":[1]}`},
		"null in the raw": {`{"a":null}`, `{"a":null}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := apply(t, c.raw, c.before, c.after)
			require.JSONEq(t, c.want, got)
		})
	}
}

// Fields that our Go type does not know, as u, stay with the element that had them.
func TestUnknownFieldsStayWithTheirElements(t *testing.T) {
	for name, c := range map[string]struct{ raw, before, after, want string }{
		"elements at both ends": {
			`[{"u":1,"k":1},{"u":2,"k":2}]`, `[{"k":1},{"k":2}]`, `[{"k":0},{"k":1},{"k":2},{"k":3}]`,
			`[{"k":0},{"u":1,"k":1},{"u":2,"k":2},{"k":3}]`,
		},
		"an element in front": {
			`[{"u":1,"k":1},{"u":2,"k":2}]`, `[{"k":1},{"k":2}]`, `[{"k":0},{"k":1},{"k":2}]`,
			`[{"k":0},{"u":1,"k":1},{"u":2,"k":2}]`,
		},
		"exchanged": {
			`[{"name":"a","u":1},{"name":"b"}]`, `[{"name":"a"},{"name":"b"}]`, `[{"name":"b"},{"name":"a"}]`,
			`[{"name":"b"},{"name":"a","u":1}]`,
		},
		"exchanged and changed": {
			`[{"name":"a","u":1},{"name":"b","u":2}]`, `[{"name":"a"},{"name":"b"}]`, `[{"name":"b","k":1},{"name":"a","k":1}]`,
			`[{"name":"b","u":2,"k":1},{"name":"a","u":1,"k":1}]`,
		},
		"one goes and another comes": {
			`[{"name":"a","u":1},{"name":"b"}]`, `[{"name":"a"},{"name":"b"}]`, `[{"name":"b"},{"name":"c"}]`,
			`[{"name":"b"},{"name":"c"}]`,
		},
		"another in its place": {
			`[{"name":"a","u":1}]`, `[{"name":"a"}]`, `[{"name":"b"}]`,
			`[{"name":"b"}]`,
		},
		"one changes and another comes": {
			`[{"name":"a","u":1}]`, `[{"name":"a"}]`, `[{"name":"a","env":[1]},{"name":"b"}]`,
			`[{"name":"a","u":1,"env":[1]},{"name":"b"}]`,
		},
		"a volume is mounted twice": {
			`[{"name":"v","mountPath":"/a","u":1},{"name":"v","mountPath":"/b","u":2}]`, `[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}]`,
			`[{"name":"v","mountPath":"/b","readOnly":true}]`, `[{"name":"v","mountPath":"/b","readOnly":true,"u":2}]`,
		},
		"one of two with a name goes, and the other changes": {
			`[{"key":"k","effect":"A","u":1},{"key":"k","effect":"B","u":2}]`, `[{"key":"k","effect":"A"},{"key":"k","effect":"B"}]`,
			`[{"key":"k","effect":"B","for":1}]`, `[{"key":"k","effect":"B","for":1}]`,
		},
		"two with a name change": {
			`[{"key":"k","effect":"A","u":1},{"key":"k","effect":"B","u":2}]`, `[{"key":"k","effect":"A"},{"key":"k","effect":"B"}]`,
			`[{"key":"k","effect":"A","for":1},{"key":"k","effect":"B","for":1}]`, `[{"key":"k","effect":"A","for":1,"u":1},{"key":"k","effect":"B","for":1,"u":2}]`,
		},
		"one that was without a name gets one": {
			`[{"port":1,"u":1}]`, `[{"port":1}]`, `[{"port":1,"name":"a"}]`,
			`[{"port":1,"name":"a","u":1}]`,
		},
		"inside of another": {
			`[{"name":"a","l":[{"name":"x","u":1}]},{"name":"b"}]`, `[{"name":"a","l":[{"name":"x"}]},{"name":"b"}]`,
			`[{"name":"c"},{"name":"a","l":[{"name":"y"},{"name":"x","k":1}]}]`,
			`[{"name":"c"},{"name":"a","l":[{"name":"y"},{"name":"x","k":1,"u":1}]}]`,
		},
		"two that are equal but for them": {
			`[{"k":1,"u":1},{"k":1,"u":2}]`, `[{"k":1},{"k":1}]`, `[{"k":1},{"k":1},{"k":1}]`,
			`[{"k":1,"u":1},{"k":1,"u":2},{"k":1}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, p := apply(t, `{"l":`+c.raw+`}`, `{"l":`+c.before+`}`, `{"l":`+c.after+`}`)
			text, err := json.Marshal(p)
			require.NoError(t, err)
			require.JSONEq(t, `{"l":`+c.want+`}`, got, "%s", text)
		})
	}
}

// Applied to the state before, a patch gives the state after, whatever they are.
func TestAPatchOfAnythingToAnything(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	var random func(depth int) any
	random = func(depth int) any {
		switch kind := r.IntN(6); {
		case kind < 2 && depth > 0:
			m := map[string]any{}
			for range r.IntN(4) {
				m[string("abc/~"[r.IntN(5)])] = random(depth - 1)
			}
			return m
		case kind < 4 && depth > 0:
			l := make([]any, r.IntN(5))
			for n := range l {
				l[n] = random(depth - 1)
			}
			return l
		case kind == 4:
			return r.IntN(2) == 0
		}
		return r.IntN(3)
	}
	for range 5000 {
		before, err := json.Marshal(map[string]any{"x": random(4), "y": random(2)})
		require.NoError(t, err)
		after, err := json.Marshal(map[string]any{"x": random(4), "y": random(2)})
		require.NoError(t, err)
		got, _ := apply(t, string(before), string(before), string(after))
		require.JSONEq(t, string(after), got, "seed %d", seed)
	}
}
