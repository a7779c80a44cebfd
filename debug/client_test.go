package debug_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/debug"
)

// speaking serves one response, with a protocol version.
func speaking(version string, body func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Millrace-Debug", version)
		fmt.Fprint(w, body())
	}
}

// The age of an event is right even if one of the clocks is wrong.
func TestAProcessWithAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := 5 * time.Minute
		client := debug.Attach("http://there", &http.Client{Transport: direct{speaking("v1", func() string {
			now := time.Now().Add(ahead)
			since, last := now.Add(-time.Minute).Format(time.RFC3339Nano), now.Add(-10*time.Second).Format(time.RFC3339Nano)
			return fmt.Sprintf(`{"at": %q, "informers": [{"reflector": {"resource": "pods", "state": "BackingOff", "attempts": 2, "since": %q,
				"failure": {"resource": "pods", "phase": "list", "err": "no route", "attempts": 2, "last": %q}}}]}`, now.Format(time.RFC3339Nano), since, last)
		})}})
		for _, ahead = range []time.Duration{5 * time.Minute, -time.Hour, 0} {
			s, err := client.Status(t.Context())
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), s.At, 0)
			r := s.Informers[0].Reflector
			require.WithinDuration(t, time.Now().Add(-time.Minute), r.Since, 0)
			require.True(t, r.RetryAt.IsZero())
			require.EqualError(t, r.Missing(), "pods: list: no route (2 attempts, last 10s ago); BackingOff for 1m0s")
		}

		// Network delay does not count as a difference, so an unchanged time stays
		// unchanged.
		for _, ahead = range []time.Duration{-time.Second, time.Second} {
			s, err := client.Status(t.Context())
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(ahead), s.At, 0)
		}
	})
}

func TestAProcessOfAnotherVersion(t *testing.T) {
	client := debug.Attach("http://there", &http.Client{Transport: direct{speaking("v2", func() string { return `{}` })}})
	_, err := client.Status(t.Context())
	require.EqualError(t, err, `http://there/debug/millrace/v1/status speaks protocol version "v2", but this client speaks v1: use a client from the same release as the process (HTTP 200)`)
}

// A busy process says when to retry.
func TestABusyProcessIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, after := 0, "1"
		client := debug.Attach("http://there", &http.Client{Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if busy--; busy < 0 {
				speaking("v1", func() string { return `{}` })(w, r)
				return
			}
			w.Header().Set("Millrace-Debug", "v1")
			w.Header().Set("Retry-After", after)
			http.Error(w, "Too many requests. Try again.", http.StatusServiceUnavailable)
		})}})
		began := time.Now()
		busy = 3
		_, err := client.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(began))

		busy, after = 100, "86400"
		began = time.Now()
		_, err = client.Status(t.Context())
		require.EqualError(t, err, "Too many requests. Try again (HTTP 503)")
		require.Equal(t, 20*time.Second, time.Since(began))

		busy, after = 1, ""
		_, err = client.Status(t.Context())
		require.ErrorContains(t, err, "HTTP 503", "it does not say when")
	})
}
