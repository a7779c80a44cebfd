package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// measure computes metrics from the readings. Metric names include the unit. It returns an error if a mark is
// missing or a figure is NaN or infinite.
func measure(j scenario.Job, o *outcome) (measures, error) {
	for _, name := range needed(j) {
		if _, ok := o.marks[name]; !ok {
			return nil, fmt.Errorf("did not set the mark %q, which is needed to measure its work", name)
		}
	}
	m := figures(j, o)
	for _, metric := range slices.Sorted(maps.Keys(m)) {
		if v := m[metric]; math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s is %v, which is not a number", metric, v)
		}
	}
	if m[results.Wall] <= 0 {
		return nil, fmt.Errorf("its work took %s, which is not a valid duration", seconds(m[results.Wall]))
	}
	return m, nil
}

// needed returns the marks that delimit the measured work.
func needed(j scenario.Job) []string {
	switch j.Script {
	case scenario.Watch, scenario.Relist:
		return []string{protocol.MarkSynced, protocol.MarkDone}
	case scenario.Reconcile:
		return []string{protocol.MarkBegin, protocol.MarkCached, protocol.MarkReconciled, protocol.MarkSynced, protocol.MarkDone}
	case scenario.Alone, scenario.Read:
		return []string{protocol.MarkBegin, protocol.MarkDone}
	}
	return []string{protocol.MarkBegin, protocol.MarkSynced}
}

// figures returns the metrics derived from marks and clocks, and those reported by the contestant.
func figures(j scenario.Job, o *outcome) measures {
	m := measures{}
	maps.Copy(m, o.result.Metrics)
	if o.result.Objects > 0 {
		m[results.LivePerObject] = float64(o.result.Live) / float64(o.result.Objects)
	}
	if j.Script == scenario.Reconcile {
		measureReconciles(j, m, o.marks)
		return m
	}
	from, to := o.marks[protocol.MarkBegin], o.marks[protocol.MarkSynced]
	if done, ok := o.marks[protocol.MarkDone]; ok {
		if j.Script != scenario.Alone && j.Script != scenario.Read {
			from = to
		}
		to = done
	}
	began := from.at
	if j.Script == scenario.Relist {
		began = o.listed // exclude the time the contestant waits before its list
		m[results.PeakOverSteady] = float64(to.peak) / float64(from.resident)
	}
	wall, cpu := to.at.Sub(began), to.cpu-from.cpu
	m[results.Wall], m[results.CPU] = wall.Seconds(), cpu.Seconds()
	m[results.PeakRSS] = float64(to.peak)
	if o.limit > 0 {
		m[results.MemoryLimit] = float64(o.limit)
	}
	if j.Script == scenario.Sync {
		m[results.CPUPerObject] = cpu.Seconds() / float64(j.Objects)
	}
	if events := j.Params[scenario.Events]; events > 0 {
		m[results.CPUPerEvent] = cpu.Seconds() / float64(events)
		if j.Script == scenario.Alone {
			m[results.WallPerEvent] = wall.Seconds() / float64(events)
		}
		if j.Params[scenario.PerSecond] == 0 {
			m[results.EventsPerSec] = float64(events) / wall.Seconds()
		}
	}
	return m
}

// measureReconciles measures the startup, until each object has been reconciled, separately from the changes
// that follow. The startup is timed from the moment the cache is complete, since other scenarios cover what
// comes before. The time for the changes includes reading and decoding them.
func measureReconciles(j scenario.Job, m measures, marks map[string]reading) {
	begin, cached, reconciled := marks[protocol.MarkBegin], marks[protocol.MarkCached], marks[protocol.MarkReconciled]
	synced, done := marks[protocol.MarkSynced], marks[protocol.MarkDone]
	m[results.Wall], m[results.CPU] = reconciled.at.Sub(begin.at).Seconds(), (reconciled.cpu - begin.cpu).Seconds()
	m[results.PeakRSS] = float64(max(synced.peak, done.peak))
	m[results.CPUPerReconcile] = (reconciled.cpu - cached.cpu).Seconds() / float64(j.Objects)
	m[results.CPUPerEvent] = (done.cpu - synced.cpu).Seconds() / float64(j.Params[scenario.Events])
}

// headline summarizes a round in one line of progress output.
func headline(m measures) string {
	text := fmt.Sprintf("wall %s, CPU %s", seconds(m[results.Wall]), seconds(m[results.CPU]))
	if p99, ok := m[results.P99]; ok {
		text += ", p99 " + seconds(p99)
	}
	if limit, ok := m[results.MemoryLimit]; ok {
		text += fmt.Sprintf(", limit %.0f MiB", limit/(1<<20))
	}
	return fmt.Sprintf("%s, peak %.0f MiB", text, m[results.PeakRSS]/(1<<20))
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}
