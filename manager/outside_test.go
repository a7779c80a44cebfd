package manager

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
)

// What others than this machine's programs can reach is protected.
func TestWhichAddressesOthersReach(t *testing.T) {
	for address, want := range map[string]bool{
		"": false, "0": false, "127.0.0.1:6060": false, "127.9.9.9:1": false, "[::1]:6060": false,
		"localhost:6060": false, "LocalHost:6060": false, "[::ffff:127.0.0.1]:1": false,
		"0.0.0.0:6060": true, "[::]:6060": true, "10.1.2.3:6060": true, "debug.example:6060": true,
	} {
		require.Equal(t, want, outside(address), address)
	}
}

// Contents are not shown to just anybody.
func TestContentsOutsideNeedAccess(t *testing.T) {
	open := Options{PprofBindAddress: "10.1.2.3:6060", DebugContents: true}
	_, err := open.withDefaults(&config.Config{})
	require.ErrorContains(t, err, "DebugContents at 10.1.2.3:6060, where anybody could read")
	open.MetricsAccess, open.MetricsTLS = true, &serving.TLS{}
	_, err = open.withDefaults(&config.Config{})
	require.NoError(t, err)
	_, err = Options{PprofBindAddress: ":6060", DebugContents: true}.withDefaults(&config.Config{})
	require.NoError(t, err)
}
