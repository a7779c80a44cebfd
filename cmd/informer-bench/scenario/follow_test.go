package scenario

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

func TestFollowMarksTheSyncAndTheLastEvent(t *testing.T) {
	for _, c := range []struct {
		until  uint64
		params protocol.Params
		marks  int
		says   []string
	}{
		{0, protocol.Params{}, 1, nil},
		{7, protocol.Params{}, 2, nil},
		{7, protocol.Params{Collected: 1}, 2, []string{results.CollectorCPU, results.CollectorCycles}},
	} {
		var said bytes.Buffer
		s := told(c.params, &said)
		s.Until = c.until
		l := ListenerOf(s)
		if c.until > 0 {
			l.Hear(version("7"))
		}
		require.NoError(t, Follow(s, []*Listener{l}))
		require.Equal(t, c.marks, strings.Count(said.String(), "mark\",\"name"), said.String())
		for _, metric := range c.says {
			require.Contains(t, s.Metrics, metric)
		}
		require.Len(t, s.Metrics, len(c.says))
	}
}

func TestTheFirstCallIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := told(protocol.Params{}, new(bytes.Buffer))
		s.Scenario = "restart"
		l := ListenerOf(s)
		require.NoError(t, s.Mark(protocol.MarkBegin))
		time.Sleep(3 * time.Second)
		l.Called()
		time.Sleep(time.Second)
		l.Called()
		require.NoError(t, Follow(s, []*Listener{l}))
		require.Equal(t, map[string]float64{results.FirstCall: 3}, s.Metrics)
	})
}

func TestCollectionsAreCounted(t *testing.T) {
	before := collections()
	runtime.GC()
	runtime.GC()
	m := collections().since(before)
	require.GreaterOrEqual(t, m[results.CollectorCycles], 2.0)
	require.Positive(t, m[results.CollectorCPU])
}
