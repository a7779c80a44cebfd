package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/metrics"
)

const webhookFigures = `
# HELP controller_runtime_webhook_panics_total Requests in which the webhook panicked.
# TYPE controller_runtime_webhook_panics_total counter
controller_runtime_webhook_panics_total{webhook="/validate"} 1
# HELP controller_runtime_webhook_requests_in_flight Requests in flight.
# TYPE controller_runtime_webhook_requests_in_flight gauge
controller_runtime_webhook_requests_in_flight{webhook="/validate"} 1
# HELP controller_runtime_webhook_requests_total Completed requests, by HTTP status.
# TYPE controller_runtime_webhook_requests_total counter
controller_runtime_webhook_requests_total{code="200",webhook="/validate"} 1
controller_runtime_webhook_requests_total{code="400",webhook="/validate"} 1
controller_runtime_webhook_requests_total{code="500",webhook="/validate"} 1
`

func TestWebhooksUnderTheNamesThatDashboardsKnow(t *testing.T) {
	r := metrics.NewRegistry()
	validate := r.Webhooks().Register("/validate")
	for range 4 {
		validate.Started()
	}
	validate.Ended(200, time.Second, false)
	validate.Ended(400, time.Second, false)
	validate.Ended(500, 2*time.Second, true)
	names := []string{"controller_runtime_webhook_panics_total", "controller_runtime_webhook_requests_in_flight", "controller_runtime_webhook_requests_total"}
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(webhookFigures), names...))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "controller_runtime_webhook_latency_seconds" {
			require.EqualValues(t, 3, f.Metric[0].Histogram.GetSampleCount())
			require.Len(t, f.Metric[0].Histogram.Bucket, 12, "from 10 ns to 1000 s, as controller-runtime has them")
			require.InDelta(t, 4, f.Metric[0].Histogram.GetSampleSum(), 1e-9)
			return
		}
	}
	t.Error("no latency")
}
