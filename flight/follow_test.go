package flight_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// A follower receives every event once, in order of time, from all tracks, including those created
// later.
func TestFollowerMissesNoHeldEvent(t *testing.T) {
	r := flight.New(64 << 10)
	first := r.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	begin, n := time.Now(), 0
	record := func(track *flight.Track) {
		n++
		track.Record(&flight.Event{At: begin.Add(time.Duration(n)), Kind: flight.Applied, Key: object.Key{Name: fmt.Sprint("p", n)}})
	}
	for range 20 {
		record(first)
	}
	f := r.Follow()
	seen := n
	for round := range 50 {
		second := r.Track(flight.Label{Role: flight.Queue, Name: fmt.Sprint("q", round)})
		for range round {
			record(first)
			record(second)
		}
		entries, lost := f.Next(nil, 1000)
		require.Zero(t, lost)
		for _, e := range entries {
			seen++
			require.Equal(t, fmt.Sprint("p", seen), e.Key.Name)
		}
		require.Equal(t, n, seen)
	}
	entries, lost := f.Next(nil, 1000)
	require.Empty(t, entries)
	require.Zero(t, lost)
}

// The recorder does not wait for a follower: it reports how many events were lost or left out.
func TestSlowFollowerIsToldHowManyEventsItMissed(t *testing.T) {
	r := flight.New(8 << 10)
	track := r.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	record := func(n int) {
		track.Record(&flight.Event{Kind: flight.Applied, Key: object.Key{Name: fmt.Sprintf("p%05d", n)}})
	}
	record(0)
	f := r.Follow()
	for n := range 10_000 {
		record(n)
	}
	held := len(r.Entries(nil))
	entries, lost := f.Next(nil, 20)
	require.Len(t, entries, 20)
	require.EqualValues(t, 10_000-20, lost)
	require.Equal(t, "p09999", entries[19].Key.Name)
	require.Greater(t, held, 20)

	for n := range 10 {
		record(n)
	}
	entries, lost = f.Next(func(e *flight.Entry) bool { return e.Key.Name == "p00007" }, 20)
	require.Len(t, entries, 1)
	require.Zero(t, lost)

	r.Resize(0)
	record(1)
	entries, lost = f.Next(nil, 20)
	require.Empty(t, entries)
	require.Zero(t, lost)
}
