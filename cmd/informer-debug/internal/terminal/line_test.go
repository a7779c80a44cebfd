package terminal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneLine(t *testing.T) {
	assert.Equal(t, "a b [31mc", OneLine("a\r\nb\x1b[31mc"))
}

func TestCompletionsAreWords(t *testing.T) {
	require.Equal(t, []string{"a"}, Completions([]string{"", "a", "b\tc", "d\x1b[2J", "e\u009b"}))
}
