package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGeneratedFilesMatchThisVersionOfClientGo(t *testing.T) {
	for name, write := range files {
		want, err := write()
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "run go generate in adapters/clientgo")
	}
}
