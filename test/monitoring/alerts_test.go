package monitoring

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const docs = "../../docs"

// alert is a rule of docs/monitoring/alerts.yaml.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "monitoring/alerts.yaml"))
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.Greater(t, len(all), 10)
	return all
}

// firing is a firing alert: since when, and with which labels.
type firing struct {
	since  time.Duration
	labels labels.Labels
	value  float64
}

// fires returns where a series of the rule existed without a gap for as long as the rule requires.
func (a alert) fires(t *testing.T, db *database) (all []firing) {
	t.Helper()
	var patience time.Duration
	if a.For != "" {
		var err error
		patience, err = time.ParseDuration(a.For)
		require.NoError(t, err, a.Alert)
	}
	for _, s := range db.query(t, a.Expr, false) {
		since, last := int64(0), int64(0)
		for _, p := range s.Floats {
			if since == 0 || p.T-last > time.Minute.Milliseconds() {
				since = p.T
			}
			last = p.T
			if at := time.UnixMilli(p.T).Sub(time.UnixMilli(since)); at >= patience {
				all = append(all, firing{time.UnixMilli(p.T).Sub(db.begin), s.Metric, p.F})
				break
			}
		}
	}
	return all
}

// plant is a fault: a metric and how its values change.
type plant struct {
	metric string
	having map[string]string
	value  func(before float64, since time.Duration) float64
}

func becomes(value float64) func(float64, time.Duration) float64 {
	return func(float64, time.Duration) float64 { return value }
}

// grows returns a function that grows at the given rate per second.
func grows(rate float64) func(float64, time.Duration) float64 {
	return func(before float64, since time.Duration) float64 { return before + rate*since.Seconds() }
}

// faults are the faults that make each alert fire.
var faults = map[string][]plant{
	"MillraceNotSynced": {
		{"millrace_informer_awaited", map[string]string{"resource": "pods"}, becomes(1)},
		{"millrace_informer_synced", map[string]string{"resource": "pods"}, becomes(0)},
		{"millrace_informer_failing_attempts", map[string]string{"resource": "pods"}, grows(0.1)},
	},
	"MillraceCacheStale":        {{"millrace_informer_age_seconds", map[string]string{"resource": "pods"}, grows(1)}},
	"MillraceHandlerBehind":     {{"millrace_informer_handler_behind_seconds", map[string]string{"resource": "pods"}, grows(1)}},
	"MillraceCacheBehind":       {{"millrace_informer_queue_age_seconds", map[string]string{"resource": "pods"}, grows(1)}},
	"MillraceQueueBehind":       {{"workqueue_oldest_waiting_seconds", nil, grows(1)}},
	"MillraceNoLeader":          {{"leader_election_master_status", nil, becomes(0)}},
	"MillraceSlotsWithoutOwner": {{"millrace_shard_slots_orphaned", nil, becomes(3)}},
	"MillraceReconcileErrors": {
		{"controller_runtime_reconcile_errors_total", nil, grows(1)},
		{"controller_runtime_reconcile_total", map[string]string{"result": "error"}, grows(1)},
		{"controller_runtime_reconcile_total", map[string]string{"result": "success"}, grows(0.5)},
	},
	"MillraceCertificateExpires": {{"millrace_server_certificate_not_after_timestamp_seconds", nil, becomes(float64(time.Now().Add(24 * time.Hour).Unix()))}},
	"MillraceReconcileHangs":     {{"workqueue_longest_running_processor_seconds", nil, grows(1)}},
	"MillraceMemberRefused":      {{"millrace_shard_refused", nil, becomes(1)}},
	"MillracePanics":             {{"controller_runtime_reconcile_panics_total", nil, grows(0.01)}},
}

// Each alert fires on its fault and on no other, after its time and not before, and its annotations
// name existing labels. For a healthy program, all alerts are silent.
func TestEachAlertFiresOnItsFault(t *testing.T) {
	program, err := ours()
	require.NoError(t, err)
	rules := alerts(t)
	for _, a := range rules {
		require.Empty(t, a.fires(t, remember(program)), "%s: nothing is wrong", a.Alert)
	}
	for name, fault := range faults {
		db := remember(program)
		for _, p := range fault {
			db.change(t, p.metric, p.having, p.value)
		}
		for _, a := range rules {
			found := a.fires(t, db)
			if a.Alert != name {
				require.Empty(t, found, "%s on the fault of %s", a.Alert, name)
				continue
			}
			require.NotEmpty(t, found, "%s on its fault", name)
			for _, f := range found {
				require.Greater(t, f.since, onset, name)
				for _, text := range a.Annotations {
					a.expand(t, text, f)
				}
			}
		}
	}
}

// expand expands an annotation as Prometheus does. A missing label fails the test.
func (a alert) expand(t *testing.T, text string, f firing) {
	t.Helper()
	tmpl, err := template.New(a.Alert).Option("missingkey=error").Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, tmpl.Execute(&out, map[string]any{"Labels": f.labels.Map(), "Value": f.value}), a.Alert)
}

// Each alert has a fault above, a severity, and a section with instructions.
func TestEachAlertSaysWhatToDo(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(docs, "production.md"))
	require.NoError(t, err)
	headings := strings.Split(string(guide), "\n")
	for _, a := range alerts(t) {
		require.Contains(t, faults, a.Alert)
		require.Contains(t, []string{"page", "ticket"}, a.Labels["severity"], a.Alert)
		require.Equal(t, "docs/production.md#"+strings.ToLower(a.Alert), a.Annotations["runbook"], a.Alert)
		require.True(t, slices.Contains(headings, "### "+a.Alert), "docs/production.md has no section %s", a.Alert)
	}
}
