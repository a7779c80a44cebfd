package membership

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsThatContradictThemselves(t *testing.T) {
	good := Options{Namespace: "shop", Name: "carts"}
	full, err := good.withDefaults()
	require.NoError(t, err)
	require.Equal(t, 1024, full.Slots)
	require.NotEmpty(t, full.Identity)
	for want, change := range map[string]func(*Options){
		"cannot be the Name of a group":  func(o *Options) { o.Name = "Carts!" },
		"Slots is -1":                    func(o *Options) { o.Slots = -1 },
		"Weight is 1001":                 func(o *Options) { o.Weight = 1001 },
		"RenewDeadline is 20s and Lease": func(o *Options) { o.RenewDeadline = 20e9 },
		"RetryPeriod is 6s and RenewDea": func(o *Options) { o.RetryPeriod = 6e9 },
		"LeaseDuration is 2h0m0s":        func(o *Options) { o.LeaseDuration = 2 * time.Hour },
		"Weight is -1":                   func(o *Options) { o.Weight = -1 },
		`Identity is "\xff"`:             func(o *Options) { o.Identity = "\xff" },
		"(300 bytes)":                    func(o *Options) { o.Layout = strings.Repeat("x", 300) },
	} {
		bad := good
		change(&bad)
		_, err := bad.withDefaults()
		require.ErrorContains(t, err, want)
	}
}
