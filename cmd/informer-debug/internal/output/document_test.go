package output

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// kubectl and the API server read YAML 1.1, in which these words are not strings unless they are quoted.
func TestYAMLKeepsStrings(t *testing.T) {
	for _, word := range []string{"yes", "No", "on", "OFF", "y", "n", "<<", "true", "null", "1e3", "0x1", "~", "2020-01-01", ""} {
		was := map[string]any{"data": map[string]any{"enabled": word, word: "x"}}
		var b bytes.Buffer
		require.NoError(t, WriteYAML(&b, was))
		var is map[string]any
		require.NoError(t, yaml.Unmarshal(b.Bytes(), &is), word)
		require.Equal(t, was, is)
	}
}
