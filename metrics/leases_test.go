package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/object"
)

func TestTwoGroupsAndTwoElections(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(metrics.NewMemberships(group{Group: "carts"})))
	require.NoError(t, r.Register(metrics.NewElections(election{Lease: object.Key{Name: "a"}})))
	require.NoError(t, r.Register(metrics.NewMemberships(group{Group: "sites"})))
	require.NoError(t, r.Register(metrics.NewElections(election{Lease: object.Key{Name: "b"}})))
}
