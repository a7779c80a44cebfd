package lease

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// given is the options that a caller has.
type given struct {
	namespace, identity    string
	labels                 map[string]string
	logger                 *slog.Logger
	duration, renew, retry time.Duration
}

func (g *given) complete() error {
	return Options{
		Namespace: g.namespace, Identity: &g.identity, Labels: &g.labels, Logger: &g.logger,
		LeaseDuration: &g.duration, RenewDeadline: &g.renew, RetryPeriod: &g.retry, Longest: math.MaxInt32 * time.Second,
	}.Complete()
}

func TestDefaults(t *testing.T) {
	a, b := given{namespace: "shop"}, given{namespace: "shop"}
	require.NoError(t, a.complete())
	require.NoError(t, b.complete())
	require.NotEqual(t, a.identity, b.identity)
	require.NotNil(t, a.logger)
	require.Equal(t, []time.Duration{15 * time.Second, 10 * time.Second, 2 * time.Second}, []time.Duration{a.duration, a.renew, a.retry})

	labels := map[string]string{"app": "janitor"}
	a = given{namespace: "shop", identity: "a", labels: labels, duration: 10*time.Second + 1}
	require.NoError(t, a.complete())
	labels["app"] = "changed"
	require.Equal(t, "janitor", a.labels["app"])
	require.Equal(t, "a", a.identity)
	require.Equal(t, 11*time.Second, a.duration, "a Lease has whole seconds")
}

func TestBadOptionsSayWhatToChange(t *testing.T) {
	for want, g := range map[string]given{
		`"" is not a valid Namespace: `:                           {},
		`"a/b" is not a valid Namespace: `:                        {namespace: "a/b"},
		`Labels: Invalid value: "no label!"`:                      {namespace: "shop", labels: map[string]string{"no label!": "x"}},
		`Labels: Invalid value: "a b"`:                            {namespace: "shop", labels: map[string]string{"app": "a b"}},
		"raise LeaseDuration":                                     {namespace: "shop", duration: 10 * time.Second},
		"RetryPeriod is -1s: want 1ms to ":                        {namespace: "shop", retry: -time.Second},
		"LeaseDuration is 1193046h28m16s: want 1ms to 596523h14m": {namespace: "shop", duration: 1 << 32 * time.Second},
		"RetryPeriod is 2562047h47m16.854775807s: ":               {namespace: "shop", retry: math.MaxInt64},
		"RenewDeadline is 10ns: want 1ms to ":                     {namespace: "shop", duration: 15, renew: 10, retry: 2},
	} {
		require.ErrorContains(t, g.complete(), want)
	}
}
