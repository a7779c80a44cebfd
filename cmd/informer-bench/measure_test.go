package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

func TestReconcilesDuringStartAreCountedSeparately(t *testing.T) {
	chosen, err := scenario.Choose([]string{"reconcile"})
	require.NoError(t, err)
	j := chosen[0].Jobs(1000)[0]
	require.Equal(t, 200, j.Params[scenario.Events])
	began := time.Now()
	at := func(wall, cpu time.Duration, peak uint64) reading {
		return reading{at: began.Add(wall * time.Second), cpu: cpu * time.Second, peak: peak}
	}
	o := &outcome{marks: map[string]reading{
		protocol.MarkBegin: at(0, 1, 1), protocol.MarkCached: at(2, 4, 10),
		protocol.MarkReconciled: at(3, 6, 40), protocol.MarkSynced: at(4, 7, 70), protocol.MarkDone: at(6, 10, 50),
	}}
	got, err := measure(j, o)
	require.NoError(t, err)
	require.Equal(t, measures{
		"wall_s": 3, "cpu_s": 5, "peak_rss_bytes": 70, "cpu_per_reconcile_s": 0.002, "cpu_per_event_s": 0.015,
	}, got)
}
