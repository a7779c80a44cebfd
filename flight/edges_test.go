package flight

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// An event with overlong texts and the largest numbers survives a round trip.
func TestTheGreatestEvent(t *testing.T) {
	r := New(4 * pieceSize)
	track := r.Track(Label{Name: "pods"})
	long := strings.Repeat("x", 10_000)
	key := object.Key{Namespace: long, Name: long}
	for range 10 {
		track.Record(&Event{
			Key: key, About: key, Cluster: long, UID: long, RV: long, Change: long, Text: long, Outcome: long,
			After: math.MaxUint64, Position: math.MaxUint64, Count: math.MaxInt, Bytes: math.MaxInt, Attempt: math.MaxInt,
			Received: math.MinInt64, Decoded: math.MinInt64, Queued: math.MinInt64, Took: math.MinInt64,
		})
	}
	got := r.Entries(nil)
	require.Len(t, got, 4)
	short := object.Key{Namespace: long[:maxName], Name: long[:maxName]}
	require.Equal(t, short, got[3].Key)
	require.Equal(t, short, got[3].About)
	require.Equal(t, long[:maxText], got[3].Text)
	require.Equal(t, long[:maxWord], got[3].RV)
	require.Equal(t, time.Duration(math.MinInt64), got[3].Took)
	var room [maxRecord]byte
	record := appendRecord(room[:0], &got[3].Event, moment{math.MinInt64, math.MinInt64})
	require.LessOrEqual(t, len(record), maxRecord)
	runtime.KeepAlive(track)
}

func TestATextIsNotCutWithinACharacter(t *testing.T) {
	for most := range 12 {
		require.Equal(t, strings.Repeat("é", most/2), clip("éééééé", most))
	}
	require.Equal(t, "a", clip("a€", 3))
	require.Equal(t, "a€", clip("a€b", 4))
	require.Equal(t, "a", clip("a€b", 3))
	require.Equal(t, "a", clip("a\U0001F600b", 4))
	require.Equal(t, "\x80\x80\x80\x80\x80", clip("\x80\x80\x80\x80\x80\x80", 5), "which is no text")
	require.Empty(t, clip("a", 0))
}

func TestRecordLeavesTheEventAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(DefaultSize)
		track := r.Track(Label{})
		e := Event{Kind: Marked}
		track.Record(&e)
		require.Zero(t, e.At)
		time.Sleep(time.Second)
		track.Record(&e)
		got := r.Entries(nil)
		require.Equal(t, time.Second, got[1].At.Sub(got[0].At))
		runtime.KeepAlive(track)
	})
}

// The timeline shows a handler's call about an object even if its informer's events, or the
// informer itself, are gone.
func TestATimelineWithoutTheInformersEvents(t *testing.T) {
	r := New(DefaultSize)
	key := object.Key{Name: "web-0"}
	pods, nodes := r.Track(Label{Role: Informer, Name: "pods"}), r.Track(Label{Role: Informer, Name: "nodes"})
	handler, other := r.Track(Label{Role: Handler, Name: "h", Of: pods}), r.Track(Label{Role: Handler, Name: "h", Of: nodes})
	handler.Record(&Event{Kind: Told, Key: key, Count: 1, Position: 1})
	other.Record(&Event{Kind: Told, Key: key, Count: 1, Position: 1})
	require.Len(t, r.Timeline("", key), 2)
	require.Len(t, r.Timeline("pods", key), 1)
	r.orphan(pods.track)
	require.Len(t, r.Timeline("pods", key), 1)
	require.Empty(t, r.Timeline("deployments", key))
	runtime.KeepAlive([]*Track{pods, nodes, handler, other})
}

// Positions of informers that share a name are not confused.
func TestATimelineOfInformersOfOneName(t *testing.T) {
	r := New(DefaultSize)
	key := object.Key{Name: "web-0"}
	var tracks []*Track
	for n := range 2 {
		pods := r.Track(Label{Role: Informer, Name: "pods"})
		handler := r.Track(Label{Role: Handler, Name: "h", Of: pods})
		pods.Record(&Event{Kind: Applied, Key: key, Position: uint64(10*n + 1)})
		handler.Record(&Event{Kind: Told, After: 0, Position: 5, Count: 5})
		tracks = append(tracks, pods, handler)
	}
	line := r.Timeline("pods", key)
	require.Len(t, line, 3)
	for _, e := range line {
		require.True(t, e.Role == Informer || e.Of == 1)
	}
	runtime.KeepAlive(tracks)
}

// The informer of another recorder has the number of a different track here.
func TestAHandlerOfAnotherRecordersInformer(t *testing.T) {
	here, there := New(DefaultSize), New(DefaultSize)
	nodes, pods := here.Track(Label{Role: Informer, Name: "nodes"}), there.Track(Label{Role: Informer, Name: "pods"})
	handler := here.Track(Label{Role: Handler, Name: "h", Of: pods})
	handler.Record(&Event{Kind: Told, Count: 2, Position: 2})
	require.Zero(t, here.Entries(nil)[0].Of)
	runtime.KeepAlive([]*Track{nodes, pods, handler})
}

func TestNumbersBelowZero(t *testing.T) {
	r := New(-1)
	r.Resize(pieceSize)
	follower := r.Follow()
	track := r.Track(Label{})
	track.Record(&Event{Kind: Done, Count: -1, Bytes: -1, Attempt: -1, Took: -1})
	require.Empty(t, r.Busiest(time.Time{}, -1))
	track.Record(&Event{Kind: Applied, Received: time.Second, Decoded: math.MinInt64})
	require.Len(t, r.Status().Tracks[0].Stages, 1, "when it was decoded is not known")
	entries, lost := follower.Next(nil, -1)
	require.Empty(t, entries)
	require.EqualValues(t, 2, lost)
	r.Resize(-1)
	require.Empty(t, r.Entries(nil))
	runtime.KeepAlive(track)
}

func TestTheZeroRecorder(t *testing.T) {
	var r Recorder
	track := r.Track(Label{})
	track.Record(&Event{Kind: Marked})
	require.Empty(t, r.Entries(nil))
	r.Resize(pieceSize)
	track.Record(&Event{Kind: Marked})
	require.Len(t, r.Entries(nil), 1)
}

// If the wall clock is set back, later events still come later.
func TestAClockThatIsPutBack(t *testing.T) {
	r := New(DefaultSize)
	track, other, follower := r.Track(Label{}), r.Track(Label{}), r.Follow()
	noon := since(r.began, time.Now())
	require.InDelta(t, 0, noon.drift, float64(time.Second), "nobody has touched the clock")
	require.Zero(t, since(r.began, time.Unix(1, 0)).drift, "which says nothing of a clock")
	track.record(&Event{Attempt: 1}, noon)
	other.record(&Event{Attempt: 2}, moment{noon.wall + 1, noon.drift})
	track.record(&Event{Attempt: 3}, moment{noon.wall + 2 - int64(time.Hour), noon.drift - time.Hour})
	other.record(&Event{Attempt: 4}, moment{noon.wall + 3 + int64(time.Hour), noon.drift + time.Hour})
	entries := r.Entries(nil)
	for n, e := range entries {
		require.Equal(t, n+1, e.Attempt)
	}
	require.Equal(t, time.Hour, entries[1].At.Sub(entries[2].At).Round(time.Second), "as the clock said")
	entries, _ = follower.Next(nil, 2)
	require.Equal(t, []int{3, 4}, []int{entries[0].Attempt, entries[1].Attempt})
	runtime.KeepAlive([]*Track{track, other})
}
