package main

import (
	"fmt"
	"maps"
	"time"

	"github.com/millrace-dev/millrace/bench/protocol"
)

// measure makes metrics of what was read. Units are in the names.
func (j job) measure(o *outcome) measures {
	m := measures{}
	maps.Copy(m, o.result.Metrics)
	if o.result.Objects > 0 {
		m["live_bytes_per_object"] = float64(o.result.Live) / float64(o.result.Objects)
	}
	if j.script == scriptReconcile {
		j.measureReconciles(m, o.marks)
		return m
	}
	from, to := o.marks[protocol.MarkBegin], o.marks[protocol.MarkSynced]
	if done, ok := o.marks[protocol.MarkDone]; ok {
		if j.script != scriptAlone {
			from = to
		}
		to = done
	}
	began := from.at
	if j.script == scriptRelist {
		began = o.listed // how long the contestant waited before that is not the list's
		m["peak_over_steady"] = float64(to.peak) / float64(from.resident)
	}
	wall, cpu := to.at.Sub(began), to.cpu-from.cpu
	m["wall_s"], m["cpu_s"] = wall.Seconds(), cpu.Seconds()
	m["peak_rss_bytes"] = float64(to.peak)
	if j.script == scriptSync {
		m["cpu_per_object_s"] = cpu.Seconds() / float64(j.objects)
	}
	if events := j.params[protocol.Events]; events > 0 {
		m["cpu_per_event_s"] = cpu.Seconds() / float64(events)
		if j.script == scriptAlone {
			m["wall_per_event_s"] = wall.Seconds() / float64(events)
		}
		if j.params[protocol.PerSecond] == 0 {
			m["events_per_s"] = float64(events) / wall.Seconds()
		}
	}
	return m
}

// measureReconciles takes the start, until each object was reconciled, apart from
// the changes after it. The reconciles of the start are taken from when the cache
// is complete: what comes before is what other scenarios are about. Those of the
// changes have reading and decoding in them.
func (j job) measureReconciles(m measures, marks map[string]reading) {
	begin, cached, reconciled := marks[protocol.MarkBegin], marks[protocol.MarkCached], marks[protocol.MarkReconciled]
	synced, done := marks[protocol.MarkSynced], marks[protocol.MarkDone]
	m["wall_s"], m["cpu_s"] = reconciled.at.Sub(begin.at).Seconds(), (reconciled.cpu - begin.cpu).Seconds()
	m["peak_rss_bytes"] = float64(max(synced.peak, done.peak))
	m["cpu_per_reconcile_s"] = (reconciled.cpu - cached.cpu).Seconds() / float64(j.objects)
	m["cpu_per_event_s"] = (done.cpu - synced.cpu).Seconds() / float64(j.params[protocol.Events])
}

// headline is what progress says of a round.
func headline(m measures) string {
	text := fmt.Sprintf("wall %s, CPU %s", seconds(m["wall_s"]), seconds(m["cpu_s"]))
	if p99, ok := m["p99_s"]; ok {
		text += ", p99 " + seconds(p99)
	}
	return fmt.Sprintf("%s, peak %.0f MiB", text, m["peak_rss_bytes"]/(1<<20))
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}
