package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

var _ metrics.InformerSource = (*factory.Factory)(nil)

type statuses []sharedinformer.Status

func (s statuses) Status() []sharedinformer.Status { return s }

// halves has one informer that is awaited and one that is not.
type halves struct{ statuses }

func (h halves) Unsynced() []sharedinformer.Status { return h.statuses[:1] }

func TestAnOptionalKindIsNotAwaited(t *testing.T) {
	both := statuses{{Reflector: reflector.Status{Resource: "pods"}}, {Reflector: reflector.Status{Resource: "gadgets"}}}
	for name, c := range map[string]struct {
		source  metrics.InformerSource
		gadgets string
	}{"where the source knows it": {halves{both}, "0"}, "unless nobody knows": {both, "1"}} {
		t.Run(name, func(t *testing.T) {
			want := `
# HELP millrace_informer_awaited 1 while a complete initial list is missing, unless the kind is optional and not installed.
# TYPE millrace_informer_awaited gauge
millrace_informer_awaited{resource="gadgets"} ` + c.gadgets + `
millrace_informer_awaited{resource="pods"} 1
`
			collector := metrics.NewInformers(c.source, metrics.InformerOptions{})
			require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(want), "millrace_informer_awaited"))
		})
	}
}

// A nil source only loses its own metrics and does not end the process in a scrape.
func TestNilSourceDoesNotFailAScrape(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(metrics.NewInformers(nil, metrics.InformerOptions{})))
	_, err := r.Gather()
	require.ErrorContains(t, err, "a status for metrics")
}

func TestInformerMetrics(t *testing.T) {
	source := statuses{{
		Reflector: reflector.Status{Resource: "pods", State: reflector.Watching, Lists: 2, Relists: 1, Watches: 7, Events: 40, Passed: 6, Failures: 3},
		Synced:    true, Objects: 12, QueueDepth: 4, QueueAge: 1500 * time.Millisecond,
		Selection: shard.SelectionByClient,
		Packed:    sharedinformer.PackedStatus{Bytes: 900, Kept: 1, Opened: 50, Damaged: 2},
		Handlers: []sharedinformer.HandlerStatus{
			{Name: "audit", Place: "main.go:7", Pending: 5, Behind: 2 * time.Second, Delivered: 30, Panics: 1, Synced: true},
			{Name: "audit", Place: "main.go:7", Pending: 2, Behind: time.Second, Delivered: 3},
		},
	}}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics.NewInformers(source, metrics.InformerOptions{})))
	want := `
# HELP millrace_informer_events_total Changes received.
# TYPE millrace_informer_events_total counter
millrace_informer_events_total{resource="pods"} 40
# HELP millrace_informer_handler_behind_seconds Age of the event that the handler is processing.
# TYPE millrace_informer_handler_behind_seconds gauge
millrace_informer_handler_behind_seconds{handler="audit",place="main.go:7",resource="pods"} 2
# HELP millrace_informer_handler_synced 1 once the handler's last initial add has returned.
# TYPE millrace_informer_handler_synced gauge
millrace_informer_handler_synced{handler="audit",place="main.go:7",resource="pods"} 0
# HELP millrace_informer_handler_delivered_total Calls that have returned.
# TYPE millrace_informer_handler_delivered_total counter
millrace_informer_handler_delivered_total{handler="audit",place="main.go:7",resource="pods"} 33
# HELP millrace_informer_packed_bytes Size of the objects in packed caches, in bytes.
# TYPE millrace_informer_packed_bytes gauge
millrace_informer_packed_bytes{resource="pods"} 900
# HELP millrace_informer_packed_damaged_total Objects whose packed bytes could not be read.
# TYPE millrace_informer_packed_damaged_total counter
millrace_informer_packed_damaged_total{resource="pods"} 2
# HELP millrace_informer_packed_kept Objects stored whole in packed caches.
# TYPE millrace_informer_packed_kept gauge
millrace_informer_packed_kept{resource="pods"} 1
# HELP millrace_informer_packed_opened_total Objects decoded from packed bytes.
# TYPE millrace_informer_packed_opened_total counter
millrace_informer_packed_opened_total{resource="pods"} 50
# HELP millrace_informer_passed_total Changes received for objects outside the share.
# TYPE millrace_informer_passed_total counter
millrace_informer_passed_total{resource="pods"} 6
# HELP millrace_informer_queue_age_seconds How long the oldest queued change has been waiting.
# TYPE millrace_informer_queue_age_seconds gauge
millrace_informer_queue_age_seconds{resource="pods"} 1.5
# HELP millrace_informer_selection Sharded informers, by the side that filters out other objects: server or client.
# TYPE millrace_informer_selection gauge
millrace_informer_selection{by="client",resource="pods"} 1
millrace_informer_selection{by="server",resource="pods"} 0
# HELP millrace_informer_state Informers for the resource in the given state.
# TYPE millrace_informer_state gauge
millrace_informer_state{resource="pods",state="BackingOff"} 0
millrace_informer_state{resource="pods",state="Connecting"} 0
millrace_informer_state{resource="pods",state="Idle"} 0
millrace_informer_state{resource="pods",state="InitialWatch"} 0
millrace_informer_state{resource="pods",state="Listing"} 0
millrace_informer_state{resource="pods",state="Resuming"} 0
millrace_informer_state{resource="pods",state="Stopped"} 0
millrace_informer_state{resource="pods",state="Watching"} 1
# HELP millrace_informer_synced 1 once a complete initial list is in the cache.
# TYPE millrace_informer_synced gauge
millrace_informer_synced{resource="pods"} 1
`
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want),
		"millrace_informer_events_total", "millrace_informer_handler_delivered_total",
		"millrace_informer_handler_behind_seconds", "millrace_informer_handler_synced",
		"millrace_informer_packed_bytes", "millrace_informer_packed_damaged_total", "millrace_informer_packed_kept", "millrace_informer_packed_opened_total",
		"millrace_informer_queue_age_seconds", "millrace_informer_passed_total", "millrace_informer_selection", "millrace_informer_state", "millrace_informer_synced"))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
