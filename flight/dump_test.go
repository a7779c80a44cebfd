package flight

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// Whatever a server or an error contains, an entry is one line without terminal escapes.
func TestAnEntryIsOneLine(t *testing.T) {
	r := New(DefaultSize)
	track := r.Track(Label{Role: Handler, Name: "a\nb"})
	track.Record(&Event{Kind: Failed, Key: object.Key{Name: "x\ty"}, Text: "one\r\ntwo\x1b[31m\xff é 日"})
	var to strings.Builder
	require.NoError(t, r.Dump(&to))
	require.Equal(t, 2, strings.Count(to.String(), "\n"), to.String())
	require.Contains(t, to.String(), `handler a\nb: failed x\ty: one\r\ntwo\x1b[31m\xff é 日`)
	runtime.KeepAlive(track)
}
