package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/test/apiserver"
)

func TestSnapshots(t *testing.T) {
	_, server := cluster(t, apiserver.Options{}) // which has two pods in shop and one in bank
	dir := t.TempDir()
	args := []string{"watch", "pods", "-A", server, "--snapshot", dir, "-c", "3"}
	first := invoke(t, args...)
	require.Equal(t, exit.CodeOK, first.code, first.errOut)
	files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	again := invoke(t, args...)
	require.Equal(t, exit.CodeOK, again.code, again.errOut)
	assert.Contains(t, again.errOut, "Resuming      pods in all namespaces, from a snapshot")
	assert.NotContains(t, again.errOut, "InitialWatch")
	assert.Contains(t, again.out, "shop/web-1")

	shown := invoke(t, "snapshot", files[0])
	require.Equal(t, exit.CodeOK, shown.code, shown.errOut)
	for _, want := range []string{"kind              v1/Pod\n", "server            " + strings.TrimPrefix(server, "--server="), "objects           3\n", "bank       1\n", "shop       2\n"} {
		assert.Contains(t, shown.out, want)
	}
	assert.NotContains(t, shown.out, "web-1")
	assert.Regexp(t, `(?m)^shop +web-1 +\S+ +\d+$`, invoke(t, "snapshot", "--keys", files[0]).out)

	require.NoError(t, os.Truncate(files[0], 100))
	damaged := invoke(t, "snapshot", files[0])
	require.Equal(t, exit.CodeRuntime, damaged.code)
	assert.Contains(t, damaged.errOut, "damaged")
	listed := invoke(t, args...)
	require.Equal(t, exit.CodeOK, listed.code)
	assert.Contains(t, listed.errOut, "damaged")
	assert.Equal(t, exit.CodeUsage, invoke(t, "snapshot").code)
}
