package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
)

func TestSnapshots(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{}) // has two pods in shop and one in bank
	dir := t.TempDir()
	args := []string{"watch", "pods", "-A", server, "--snapshot", dir, "-c", "3"}
	first := invoke(t, args...)
	require.Equal(t, exit.CodeOK, first.Code, first.ErrOut)
	files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	again := invoke(t, args...)
	require.Equal(t, exit.CodeOK, again.Code, again.ErrOut)
	assert.Contains(t, again.ErrOut, "Resuming      pods in all namespaces, from a snapshot")
	assert.NotContains(t, again.ErrOut, "InitialWatch")
	assert.Contains(t, again.Out, "shop/web-1")

	shown := invoke(t, "snapshot", files[0])
	require.Equal(t, exit.CodeOK, shown.Code, shown.ErrOut)
	for _, want := range []string{"kind               v1/Pod\n", "server             " + strings.TrimPrefix(server, "--server="), "objects            3\n", "bank        1\n", "shop        2\n"} {
		assert.Contains(t, shown.Out, want)
	}
	assert.NotContains(t, shown.Out, "web-1")
	assert.Regexp(t, `(?m)^shop +web-1 +\S+ +\d+$`, invoke(t, "snapshot", "--keys", files[0]).Out)

	// These names contain terminal escapes.
	debugtest.Put(t, srv, object.Key{Namespace: "odd\x1b[2J", Name: "od\u202ed-\x1b[2J"}, corev1.PodRunning)
	obeyed := t.TempDir()
	names := invoke(t, "watch", "pods", "-A", server, "--snapshot", obeyed, "-c", "4", "-o", "name")
	require.Equal(t, exit.CodeOK, names.Code, names.ErrOut)
	assert.Contains(t, names.Out, "odd [2J pods/od d- [2J\n")
	odd, err := filepath.Glob(filepath.Join(obeyed, "*.snapshot"))
	require.NoError(t, err)
	require.Len(t, odd, 1)
	wide := invoke(t, "watch", "pods", "-A", server, "-c", "4", "-o", "wide")
	for _, r := range []debugtest.Result{names, wide, invoke(t, "snapshot", odd[0]), invoke(t, "snapshot", "--keys", odd[0])} {
		require.Contains(t, r.Out, "odd [2J", r.ErrOut)
		require.NotContains(t, r.Out, "\x1b")
		require.NotContains(t, r.Out, "\u202e")
	}

	all := invoke(t, "snapshot", dir)
	require.Equal(t, exit.CodeUsage, all.Code)
	assert.Contains(t, all.ErrOut, dir+" is a directory: want one FILE in it, such as "+files[0])
	assert.NotContains(t, all.ErrOut, "removed")
	assert.Contains(t, invoke(t, "snapshot", t.TempDir()).ErrOut, "is a directory without snapshots")

	require.NoError(t, os.Truncate(files[0], 100))
	damaged := invoke(t, "snapshot", files[0])
	require.Equal(t, exit.CodeRuntime, damaged.Code)
	assert.Contains(t, damaged.ErrOut, "damaged")
	listed := invoke(t, args...)
	require.Equal(t, exit.CodeOK, listed.Code)
	assert.Contains(t, listed.ErrOut, "damaged")
	assert.Equal(t, exit.CodeUsage, invoke(t, "snapshot").Code)
}
