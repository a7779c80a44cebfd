package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A cache is compared only if it should equal the server's state and the list is cheap for the
// server.
func TestLargeCachesAreNotCompared(t *testing.T) {
	x := examination{findings: &findings{}, to: "http://localhost:6060"}
	small := debug.Informer{Status: sharedinformer.Status{Synced: true, Objects: comparedObjects, Reflector: reflector.Status{Resource: "pods"}}}
	large, unsynced, failing := small, small, small
	large.Objects++
	unsynced.Synced = false
	failing.Reflector.Attempts = 1
	require.True(t, x.worthComparing(&small))
	require.False(t, x.worthComparing(&unsynced))
	require.False(t, x.worthComparing(&failing))
	require.Empty(t, x.findings.all)
	require.False(t, x.worthComparing(&large))
	var b strings.Builder
	require.NoError(t, x.write(&b, ""))
	require.Equal(t, "ok       pods: not compared with the server: it contains 20001 objects, more than 20000; informer-debug check --attach http://localhost:6060 compares it\n", b.String())
}
