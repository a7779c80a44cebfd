package manager

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A cache that no longer follows its server fails readiness, with its age and the cause, although it
// has synced. The namespaces that do follow are not named.
func TestL31_ReadyNamesCachesThatAreStale(t *testing.T) {
	now := time.Now()
	forbidden := &failure.Failure{Resource: "pods in namespace gone", Phase: failure.PhaseWatchOpen, Err: errors.New("forbidden"), Attempts: 7, Since: now.Add(-time.Hour), Last: now}
	stale := reflector.Status{Resource: "pods in namespace gone", State: reflector.BackingOff, Heard: now.Add(-time.Hour), Attempts: 7, Failure: forbidden}
	fresh := reflector.Status{Resource: "pods in namespace shop", State: reflector.Watching, Bookmarks: 1, Heard: now.Add(-time.Minute)}
	quiet := reflector.Status{Resource: "jobs", State: reflector.Watching, Since: now.Add(-time.Hour), Heard: now.Add(-time.Hour)} // without bookmarks
	none := func() []sharedinformer.Status { return nil }
	ask := func(all ...sharedinformer.Status) error {
		return synced(none, func() []sharedinformer.Status { return all })(nil)
	}
	require.NoError(t, ask(sharedinformer.Status{Synced: true, Reflector: fresh}, sharedinformer.Status{Synced: true, Reflector: quiet}))
	err := ask(sharedinformer.Status{Synced: true, Reflector: stale, Namespaces: []reflector.Status{stale, fresh}})
	require.ErrorContains(t, err, "stale: 1h0m0s old: pods in namespace gone: watch open: forbidden (7 attempts")
	require.NotContains(t, err.Error(), "shop")
	err = ask(sharedinformer.Status{Synced: true, Reflector: fresh, QueueAge: time.Hour, Blocked: "index x: function has not returned"})
	require.ErrorContains(t, err, "stale: 1h0m0s old: pods in namespace shop: index x: function has not returned")
	broken := sharedinformer.Status{Reflector: reflector.Status{Resource: "pods", State: reflector.Stopped},
		Failure: &failure.Failure{Resource: "pods", Phase: failure.PhaseIndex, Err: errors.New("index x: panic"), Attempts: 1}}
	err = synced(func() []sharedinformer.Status { return []sharedinformer.Status{broken} }, none)(nil)
	require.ErrorContains(t, err, "not synced: pods: index: index x: panic")
	polled := stale
	polled.Heard, polled.Polling = now.Add(-2*time.Minute), true
	require.NoError(t, ask(sharedinformer.Status{Synced: true, Reflector: polled}), "lists keep it fresh enough")
}
