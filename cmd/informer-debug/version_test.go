package main

import (
	"bytes"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVersionNamesTheLibraries(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeVersion(&out, &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abcdef"}},
		Deps:     []*debug.Module{{Path: "k8s.io/api", Version: "v0.37.2"}, {Path: "example.com/other", Version: "v9"}},
	}))
	assert.Contains(t, out.String(), "informer-debug      v1.2.3 abcdef\n")
	assert.Contains(t, out.String(), "k8s.io/api          v0.37.2\n")
	assert.NotContains(t, out.String(), "other")
}
