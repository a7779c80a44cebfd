package printable

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONMeansTheSame(t *testing.T) {
	for _, text := range []string{"plain", "é 漢 😀", "\u009b2J\x1b[2J\x7f\u0085", "\u202eabc\u2069", "\u2028", `\"`, "a\nb\tc"} {
		var b bytes.Buffer
		to := json.NewEncoder(&b)
		to.SetIndent("", "  ")
		require.NoError(t, to.Encode(map[string]any{text: []any{text}}))
		clean := JSON(b.Bytes())
		var back map[string]any
		require.NoError(t, json.Unmarshal(clean, &back), "%s", clean)
		require.Equal(t, map[string]any{text: []any{text}}, back)
		for _, r := range string(clean) {
			require.True(t, r == '\n' || !Control(r), "%q has %q", clean, r)
		}
	}
	require.Equal(t, `"a\ufffdb\u009b"`, string(JSON([]byte("\"a\x9bb\u009b\""))))
	require.Equal(t, "{\r\n\t\"a\": 1}", string(JSON([]byte("{\r\n\t\"a\": 1}"))))
}

func TestTextForPeople(t *testing.T) {
	var b bytes.Buffer
	text := []byte("a\x1b[2J\u009bé\u202e\r\n\tb\xff")
	n, err := Writer{&b}.Write(text)
	require.NoError(t, err)
	require.Len(t, text, n)
	require.Equal(t, "a [2J é  \n\tb\ufffd", b.String())
}
