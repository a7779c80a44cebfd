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

func TestAPatchFitsWhatTheServerHas(t *testing.T) {
	for name, c := range map[string]struct{ raw, before, after, want string }{
		"nothing": {`{"a":1}`, `{"a":1,"status":{}}`, `{"a":1,"status":{}}`, `{"a":1}`},
		"what the type writes always is not in raw": {
			`{"a":1}`, `{"a":1,"n":0,"status":{}}`, `{"a":1,"n":2,"status":{"x":1}}`, `{"a":1,"n":2,"status":{"x":1}}`,
		},
		"unknown fields stay": {
			`{"a":{"u":1,"k":1},"l":[{"u":1,"k":1},{"u":2,"k":2}]}`, `{"a":{"k":1},"l":[{"k":1},{"k":2}]}`, `{"a":{"k":2},"l":[{"k":1},{"k":3}]}`,
			`{"a":{"u":1,"k":2},"l":[{"u":1,"k":1},{"u":2,"k":3}]}`,
		},
		"elements at both ends: all are exchanged": {
			`{"l":[{"u":1,"k":1},{"u":2,"k":2}]}`, `{"l":[{"k":1},{"k":2}]}`, `{"l":[{"k":0},{"k":1},{"k":2},{"k":3}]}`,
			`{"l":[{"k":0},{"k":1},{"k":2},{"k":3}]}`,
		},
		"an element in front: unknown fields stay with theirs": {
			`{"l":[{"u":1,"k":1},{"u":2,"k":2}]}`, `{"l":[{"k":1},{"k":2}]}`, `{"l":[{"k":0},{"k":1},{"k":2}]}`,
			`{"l":[{"k":0},{"u":1,"k":1},{"u":2,"k":2}]}`,
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
