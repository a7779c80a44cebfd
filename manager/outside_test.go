package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
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
