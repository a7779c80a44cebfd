package flight_test

import (
	"fmt"
	"runtime"
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

// Events of a track that ends, and whose memory is needed before the follower reads it, are counted as lost, even if the
// follower has never seen the track.
func TestFollowerCountsTheEventsOfTracksThatEnded(t *testing.T) {
	r := flight.New(8 << 10)
	stays := r.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	event := &flight.Event{Kind: flight.Applied, Key: object.Key{Name: "p"}}
	f := r.Follow()
	total, read := 0, 0
	for range 3 {
		ends := r.Track(flight.Label{Role: flight.Queue, Name: "ends"})
		ends.Record(event)
		total++
		if total == 1 {
			entries, lost := f.Next(nil, 10)
			require.Len(t, entries, 1)
			require.Zero(t, lost)
			read++
		}
		ends.Record(event)
		total++
		runtime.KeepAlive(ends)
	}
	for len(r.Status().Tracks) > 1 { // until the garbage collector has found them
		runtime.GC()
		for range 1000 {
			stays.Record(event)
			total++
		}
	}
	entries, lost := f.Next(nil, 10)
	require.EqualValues(t, total-read-len(entries), lost)
	for range 10 {
		stays.Record(event)
	}
	entries, lost = f.Next(nil, 10)
	require.Len(t, entries, 10)
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
