package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// InformerSource provides the informers to export; *factory.Factory implements it.
type InformerSource interface {
	Status() []sharedinformer.Status
}

// InformerOptions configure [Informers]. The zero value is usable.
type InformerOptions struct {
	// ConstLabels are added to every metric.
	ConstLabels prometheus.Labels
}

// Informers exports informers. Every metric has the label resource; handler metrics also have the labels
// handler and place (file:line).
//
//   - millrace_informer_synced: 1 once a complete initial list is in the cache
//   - millrace_informer_awaited: 1 until then, unless the kind is optional and not installed
//   - millrace_informer_state: number of informers in a state, by label state
//   - millrace_informer_failing_attempts: consecutive failures, 0 if healthy
//   - millrace_informer_age_seconds: time since the server last confirmed the cached
//     state
//   - millrace_informer_polling: 1 while the informer lists because watches are failing
//   - millrace_informer_objects: cached objects
//   - millrace_informer_packed_bytes, _packed_kept, _packed_opened_total,
//     _packed_damaged_total: see sharedinformer.PackedStatus
//   - millrace_informer_lists_total, _relists_total, _watches_total, _events_total,
//     _bookmarks_total, _duplicates_total, _failures_total
//   - millrace_informer_selection: 1 for the side that filters a sharded informer's objects (label by: server
//     or client), once known; millrace_informer_passed_total: changes to other objects that arrived anyway
//   - millrace_informer_queue_depth, _queue_age_seconds: how far the cache lags behind
//     the network
//   - millrace_informer_handler_synced, _handler_pending, _handler_behind_seconds,
//     _handler_slowest_seconds
//   - millrace_informer_handler_delivered_total, _handler_coalesced_total,
//     _handler_panics_total, _handler_errors_total
type Informers struct {
	source   InformerSource
	state    *prometheus.Desc
	awaited  *prometheus.Desc
	selected *prometheus.Desc
	informer []metric[sharedinformer.Status]
	handler  []metric[sharedinformer.HandlerStatus]

	turn   chan struct{} // full during a scrape
	rising rising
}

// NewInformers returns a collector for registration.
func NewInformers(source InformerSource, opts InformerOptions) *Informers {
	c := &Informers{source: source, turn: make(chan struct{}, 1)}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_informer_"+name, help, append([]string{"resource"}, labels...), opts.ConstLabels)
	}
	c.state = desc("state", "Informers for the resource in the given state.", "state")
	c.awaited = desc("awaited", "1 while a complete initial list is missing, unless the kind is optional and not installed.")
	c.selected = desc("selection", "Sharded informers, by the side that filters out other objects: server or client.", "by")

	type s = sharedinformer.Status
	informer := func(name, help string, kind prometheus.ValueType, value func(s) float64, merge merge) {
		c.informer = append(c.informer, metric[s]{desc(name, help), kind, value, merge})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	informer("synced", "1 once a complete initial list is in the cache.", gauge, func(i s) float64 { return truth(i.Synced) }, all)
	informer("failing_attempts", "Consecutive failures, 0 if healthy.", gauge, func(i s) float64 { return float64(i.Reflector.Attempts) }, worst)
	informer("age_seconds", "Time since the server last confirmed the cached state.", gauge, func(i s) float64 { return i.Reflector.Age(time.Now()).Seconds() }, worst)
	informer("polling", "1 while the informer lists because watches are failing.", gauge, func(i s) float64 { return truth(i.Reflector.Polling) }, worst)
	informer("objects", "Cached objects.", gauge, func(i s) float64 { return float64(i.Objects) }, add)
	informer("packed_bytes", "Size of the objects in packed caches, in bytes.", gauge, func(i s) float64 { return float64(i.Packed.Bytes) }, add)
	informer("packed_kept", "Objects stored whole in packed caches.", gauge, func(i s) float64 { return float64(i.Packed.Kept) }, add)
	informer("packed_opened_total", "Objects decoded from packed bytes.", counter, func(i s) float64 { return float64(i.Packed.Opened) }, add)
	informer("packed_damaged_total", "Objects whose packed bytes could not be read.", counter, func(i s) float64 { return float64(i.Packed.Damaged) }, add)
	informer("queue_depth", "Changes not yet in the cache.", gauge, func(i s) float64 { return float64(i.QueueDepth) }, add)
	informer("queue_age_seconds", "How long the oldest queued change has been waiting.", gauge, func(i s) float64 { return i.QueueAge.Seconds() }, worst)
	informer("lists_total", "Lists and streaming lists started.", counter, func(i s) float64 { return float64(i.Reflector.Lists) }, add)
	informer("relists_total", "Lists that replaced an existing state, such as after an expired resource version.", counter, func(i s) float64 { return float64(i.Reflector.Relists) }, add)
	informer("watches_total", "Watches started.", counter, func(i s) float64 { return float64(i.Reflector.Watches) }, add)
	informer("events_total", "Changes received.", counter, func(i s) float64 { return float64(i.Reflector.Events) }, add)
	informer("bookmarks_total", "Bookmarks received.", counter, func(i s) float64 { return float64(i.Reflector.Bookmarks) }, add)
	informer("passed_total", "Changes received for objects outside the share.", counter, func(i s) float64 { return float64(i.Reflector.Passed) }, add)
	informer("duplicates_total", "Duplicate changes received.", counter, func(i s) float64 { return float64(i.Reflector.Duplicates) }, add)
	informer("failures_total", "Failures in listing, watching, decoding or transforming.", counter, func(i s) float64 { return float64(i.Reflector.Failures) }, add)

	type h = sharedinformer.HandlerStatus
	handler := func(name, help string, kind prometheus.ValueType, value func(h) float64, merge merge) {
		c.handler = append(c.handler, metric[h]{desc("handler_"+name, help, "handler", "place"), kind, value, merge})
	}
	handler("synced", "1 once the handler's last initial add has returned.", gauge, func(r h) float64 { return truth(r.Synced) }, all)
	handler("pending", "Events pending for the handler.", gauge, func(r h) float64 { return float64(r.Pending) }, add)
	handler("behind_seconds", "Age of the event that the handler is processing.", gauge, func(r h) float64 { return r.Behind.Seconds() }, worst)
	handler("slowest_seconds", "Duration of the longest call.", gauge, func(r h) float64 { return r.Slowest.Seconds() }, worst)
	handler("delivered_total", "Calls that have returned.", counter, func(r h) float64 { return float64(r.Delivered) }, add)
	handler("coalesced_total", "Events eliminated by merging, with the lag policy Coalesce.", counter, func(r h) float64 { return float64(r.Coalesced) }, add)
	handler("panics_total", "Calls that panicked.", counter, func(r h) float64 { return float64(r.Panics) }, add)
	handler("errors_total", "Calls that returned an error.", counter, func(r h) float64 { return float64(r.Errors) }, add)
	return c
}

// Describe implements prometheus.Collector.
func (c *Informers) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	out <- c.awaited
	out <- c.selected
	for _, m := range c.informer {
		out <- m.desc
	}
	for _, m := range c.handler {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector. It merges informers with the same name, and handlers with the same
// name and place, such as handlers registered in a loop: values are added up, times and consecutive failures
// are the maximum, and synced is 1 if all are synced. Counters keep the counts of namespaces and handlers that have
// been removed.
func (c *Informers) Collect(out chan<- prometheus.Metric) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	informers, ok := read(out, c.state, func() []sharedinformer.Status { return c.source.Status() })
	if !ok {
		return
	}
	found := figures{}
	c.await(out, found, informers)
	for _, i := range informers {
		resource := i.Reflector.Resource
		for state := reflector.Idle; state <= reflector.Stopped; state++ {
			found.put(c.state, prometheus.GaugeValue, truth(i.Reflector.State == state), add, resource, state.String())
		}
		if by := i.Selection; by == shard.SelectionByServer || by == shard.SelectionByClient {
			found.put(c.selected, prometheus.GaugeValue, truth(by == shard.SelectionByServer), add, resource, "server")
			found.put(c.selected, prometheus.GaugeValue, truth(by == shard.SelectionByClient), add, resource, "client")
		}
		for _, m := range c.informer {
			found.put(m.desc, m.kind, m.value(i), m.merge, resource)
		}
		for _, r := range i.Handlers {
			for _, m := range c.handler {
				found.put(m.desc, m.kind, m.value(r), m.merge, resource, r.Name, r.Place)
			}
		}
	}
	c.rising.adjust(found)
	found.send(out)
}

// await adds the informers that are being waited for. A source that knows which kinds are optional provides
// the list itself.
func (c *Informers) await(out chan<- prometheus.Metric, found figures, informers []sharedinformer.Status) {
	var missing []sharedinformer.Status
	if source, ok := c.source.(interface {
		Unsynced() []sharedinformer.Status
	}); ok {
		if missing, ok = read(out, c.awaited, source.Unsynced); !ok {
			return
		}
	} else {
		for _, i := range informers {
			if !i.Synced {
				missing = append(missing, i)
			}
		}
	}
	for _, i := range informers {
		found.put(c.awaited, prometheus.GaugeValue, 0, worst, i.Reflector.Resource)
	}
	for _, i := range missing {
		found.put(c.awaited, prometheus.GaugeValue, 1, worst, i.Reflector.Resource)
	}
}
