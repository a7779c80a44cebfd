package fault

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A message contains only printable text: a terminal may interpret an invalid UTF-8 byte as a
// control character.
func TestExcerptIsPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"web-0":                 "web-0",
		"caf\u00e9 \ufffd":      "caf\u00e9 \ufffd",
		"a\x1b[2J":              "a...",
		"a\x9b2J":               "a...",
		"a\u202eb":              "a...",
		strings.Repeat("x", 65): strings.Repeat("x", 64) + "...",
	} {
		require.Equal(t, want, Excerpt(text))
	}
}
